"""The record of a run: outputs of every round and local step, movements, flips, and the provenance of the run."""

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from ntkfl.version import VERSION


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The record of T rounds with K local steps each.

    Runs of the finite network, of the linearised network and of the infinite-width limit all return this class.

    Args:
        y: the labels, (n,) or (n, C).
        n_clients: N, by which the loss is divided.
        outputs: y(t), the global model's outputs on the training data, (T+1, n) or (T+1, n, C).
        local_outputs: y^{(k)}(t), (T, K+1, n[, C]): entry i is the output on sample i of the model that the client
            of sample i has after k local steps. None if clients train in turn, since each client then begins at another
            model.
        movement: max_r |u_r(t) - u_r(0)|, (T+1,).
        local_movement: the largest |w_{k,c,r}(t) - u_r(0)| over clients and neurons, (T, K+1).
        step: max_r |Delta u_r(t)|, where Delta u is the averaged client update before eta_global, (T,).
        total_movement: |U(t) - U(0)|_F, (T+1,); for a network other than FL-NTK's network, over all its parameters.
        flips: the fraction of pairs (neuron, sample) whose activation differs from the pair's activation at u(0),
            (T+1,).
        weights: the hidden weights u(t), (m, d), of the rounds that the caller asked to keep; for a network other
            than FL-NTK's network, its parameters by name.
        provenance: seeds, versions, dtype, device.

    `movement`, `local_movement`, `step` and `flips` are None for the limit, which has no neurons, and for networks
    other than FL-NTK's network. These four and `total_movement` are None in a run that does not record them.
    """

    y: np.ndarray
    n_clients: int
    outputs: np.ndarray
    local_outputs: np.ndarray = None  # type: ignore[assignment]
    total_movement: np.ndarray | None = None
    movement: np.ndarray | None = None
    local_movement: np.ndarray | None = None
    step: np.ndarray | None = None
    flips: np.ndarray | None = None
    weights: Mapping[int, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        """T, the number of rounds run."""
        return len(self.outputs) - 1

    @property
    def residual_norm(self) -> np.ndarray:
        """|y - y(t)|_2, (T+1,)."""
        return np.sqrt(((self.y - self.outputs) ** 2).sum(axis=tuple(range(1, self.outputs.ndim))))

    @property
    def loss(self) -> np.ndarray:
        """The paper's training loss L = |y - y(t)|^2 / (2N), (T+1,)."""
        return self.residual_norm**2 / (2 * self.n_clients)


def provenance(**seeds: Any) -> dict[str, Any]:
    """Versions, dtype and device of this process, with the seeds that the caller names."""
    device = "cpu:0"
    # JAX is not imported here, since it loads slowly; a process that has not imported JAX has computed on the host
    if "jax" in sys.modules:
        import jax

        device = str(jax.devices()[0])
    return {
        "seeds": seeds,
        "versions": {"python": platform.python_version(), "ntkfl": VERSION}
        | {name: package_version(name) for name in ("numpy", "scipy", "jax", "jaxlib", "sympy", "python-flint")},
        "dtype": "float64",
        "device": device,
        "machine": platform.machine(),
    }


@cache
def package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # some systems ship modules without the metadata that has the version
        return "unknown"
