"""Adapter of the conformance kit for fedjax, in float64.

fedjax runs its own algorithms and local training. The cases prescribe cohorts and batches.

The server's step is taken by one of fedjax's optimizers: sgd, adam or yogi.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ |= {"JAX_ENABLE_X64": "1"}  # set before jax is imported, since jax reads this variable at import

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from fedjax.algorithms.fed_avg import federated_averaging
from fedjax.algorithms.fed_prox import fed_prox

PACKAGES = ("fedjax", "jax", "optax")


class Planned:
    """A client's samples in one round, in the batches of the case."""

    def __init__(self, case: Any, number: int, client: int) -> None:
        self.batches = case.batches(number, client)
        self.size = 1 if case.method == "fl-ntk" else case.sizes[client]

    def __len__(self) -> int:
        return self.size

    def shuffle_repeat_batch(self, wanted: Any) -> Iterator[dict[str, np.ndarray]]:
        """The method by which fedjax reads a client's data. The samples come in the order of the case."""
        return ({"x": batch.x, "y": batch.y} for batch in self.batches)


def losses(case: Any) -> Any:
    """The function (parameters, batch, key) -> the loss of every sample."""

    def line(w: Any, batch: Any, key: Any) -> Any:
        return (batch["x"] @ w["w"] - batch["y"]) ** 2 / 2

    def classes(w: Any, batch: Any, key: Any) -> Any:
        z = batch["x"]
        if case.model == "network":
            z = jnp.tanh(z @ w["body.0.weight"].T + w["body.0.bias"])
        logits = z @ w["head.weight"].T + w["head.bias"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"])

    return line if case.model == "line" else classes


def algorithm(case: Any, rate: float) -> Any:
    """fedjax's algorithm with this local rate."""
    given, loss_of = case.options, losses(case)
    local = [optax.clip_by_global_norm(case.clip)] if case.clip is not None else []
    local += [optax.add_decayed_weights(case.weight_decay)] if case.weight_decay else []
    local += [optax.sgd(rate, momentum=case.momentum or None)]
    client = fedjax.optimizers.create_optimizer_from_optax(optax.chain(*local))
    # fedjax's algorithms require these hyperparameters of batches. The hyperparameters have no effect, because
    # `Planned` ignores them and returns the batches of the case.
    order = fedjax.ShuffleRepeatBatchHParams(1, num_epochs=1)
    server = server_optimizer(case)
    if case.method == "fedprox":
        return fed_prox(loss_of, client, server, order, given["mu"])

    def total(w: Any, batch: Any, key: Any) -> Any:
        values = loss_of(w, batch, key)
        return values.sum() if case.loss == "sum" else values.mean()

    return federated_averaging(jax.grad(total), client, server, order)


def server_optimizer(case: Any) -> Any:
    """The server optimizer for the case's method.

    With this optimizer, fedjax's algorithm takes the same server steps as the method.
    """
    given, made = case.options, fedjax.optimizers
    if case.method in ("fedavg", "fl-ntk", "fedprox"):
        return made.sgd(given["server_rate"])
    if case.method == "fedavgm":
        return made.sgd(given["server_rate"], momentum=given["momentum"] or None, nesterov=given["nesterov"])
    if case.method in ("fedadam", "fedyogi"):
        if max(given["first"], given["second"]) >= 1:
            raise NotImplementedError("bias correction divides by 0 where a decay is 1")
        kind = made.adam if case.method == "fedadam" else made.yogi
        return kind(given["server_rate"], b1=given["first"], b2=given["second"], eps=given["tau"])
    raise NotImplementedError(f"fedjax has no {case.method}")


def run(case: Any) -> Any:
    """The model after every round."""
    state, built, rate = None, None, None
    for number in range(case.rounds):
        if case.rates[number] != rate:
            rate = case.rates[number]
            built = algorithm(case, rate)
        assert built is not None
        if state is None:
            state = built.init({name: jnp.asarray(value) for name, value in case.tensors(case.start).items()})
        clients = [(b"%d" % i, Planned(case, number, i), jax.random.PRNGKey(i)) for i in case.cohort(number)]
        state, _ = built.apply(state, clients)
        yield {name: np.asarray(value) for name, value in state.params.items()}
