"""What a method is in its limits, computed without it: gradient descent, one client alone, nothing at all, FedAvg."""

from collections.abc import Iterator

import numpy as np

from ntkfl.conformance import loops
from ntkfl.conformance.case import Case

Tensors = Iterator[dict[str, np.ndarray]]


def still(case: Case) -> Tensors:
    """The first model, for ever."""
    for _ in range(case.rounds):
        yield case.tensors(case.start)


def pooled_descent(case: Case) -> Tensors:
    """A step of gradient descent a round on all samples together."""
    w = case.start
    for rate in case.rates:
        w = w - rate * (case.gradient(w, case.x, case.y) + case.weight_decay * w)
        yield case.tensors(w)


def one_client(case: Case) -> Tensors:
    """The first client's steps, round after round."""
    w = case.start
    for number, rate in enumerate(case.rates):
        move = np.zeros_like(w)
        for batch in case.batches(number, 0):
            move = case.momentum * move - rate * (case.gradient(w, batch.x, batch.y) + case.weight_decay * w)
            w = w + move
        yield case.tensors(w)


def fed_avg(case: Case) -> Tensors:
    """FedAvg."""
    for kept in loops.fed_avg(case):
        yield case.tensors(kept["model"])
