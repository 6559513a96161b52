"""Counts of neurons that are active on both of two samples, computed on JAX's devices.

This module is used only if the caller names devices.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ntkfl.double_precision import in_float64
from ntkfl.gram.pair_counts import summed
from ntkfl.gram.patterns import activations, unit_product_error, unit_rows
from ntkfl.rounding import scaled_rows


@in_float64
def summed_on_devices(
    x: Float[np.ndarray, "n d"], pieces: Iterable[Float[np.ndarray, "b d"]], devices: Sequence[jax.Device]
) -> Int[np.ndarray, "n n"]:
    """#{r: x_i and x_j activate neuron r}, summed over all pieces of a network's hidden weights.

    The samples and the weights must be finite.

    If float64 cannot decide the sign of a neuron's pre-activation on some sample, the host's processor computes all
    signs of this neuron exactly.

    Products are in float64, since with float32 most neurons would have an undecided sign. Patterns are multiplied in 8
    bits, for which GPUs have matrix units, and summed in 32 bits, so a piece must have fewer than 2^31 neurons.

    Raises:
        ValueError: a device is a TPU, whose float64 numbers are sums of shorter numbers, with other rounding errors.
    """
    for device in devices:
        if device.platform == "tpu":
            raise ValueError(
                f"{device} is a TPU, whose float64 has no known error bound; exact counts need CPUs or GPUs"
            )
    unit, bound = unit_rows(scaled_rows(x), np.float64), unit_product_error(x.shape[1], np.float64)
    rows = [jax.device_put(unit, device) for device in devices]
    totals = [jax.device_put(np.zeros((len(x), len(x)), np.int64), device) for device in devices]
    on_host = np.zeros((len(x), len(x)), np.int64)
    waiting: deque[tuple[np.ndarray, jax.Array]] = deque()

    def settle() -> None:
        hidden, unsure = waiting.popleft()
        left = hidden[np.asarray(unsure)]
        if len(left):
            on_host[:] += summed([lambda packed: (activations(x, left), None)], on_host.shape, len(left), same=True)

    for number, hidden in enumerate(pieces):
        # the devices count the pieces in this queue while the host draws the next piece
        if len(waiting) == 2 * len(devices):
            settle()
        k = number % len(devices)
        piece = jax.device_put(unit_rows(scaled_rows(hidden), np.float64), devices[k])
        totals[k], unsure = _counted(rows[k], piece, bound, totals[k])
        waiting.append((hidden, unsure))
    while waiting:
        settle()
    return sum(map(np.asarray, totals), start=on_host)


@partial(jax.jit, donate_argnames="total")
def _counted(x: jax.Array, u: jax.Array, bound: float, total: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The total plus the counts of the neurons whose signs are all certain, and a mask of the other neurons."""
    z = jnp.matmul(x, u.T, precision="highest")
    unsure = (jnp.abs(z) <= bound).any(axis=0)
    active = ((z >= 0) & ~unsure).astype(jnp.int8)
    over_neurons = (((1,), (1,)), ((), ()))
    pairs = jax.lax.dot_general(active, active, over_neurons, preferred_element_type=jnp.int32)
    return total + pairs.astype(jnp.int64), unsure
