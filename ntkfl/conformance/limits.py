"""A method's limits, computed without the method: gradient descent, one client alone, no change at all, FedAvg."""

from collections.abc import Iterator

import numpy as np

from ntkfl.conformance import loops
from ntkfl.conformance.conformance_case import ConformanceCase

Tensors = Iterator[dict[str, np.ndarray]]


def still(case: ConformanceCase) -> Tensors:
    """The first model after every round."""
    for _ in range(case.rounds):
        yield case.result(case.start)


def pooled_descent(case: ConformanceCase) -> Tensors:
    """One step of gradient descent a round, on the samples of all clients."""
    w = case.start
    for rate in case.rates:
        w = w - rate * (case.gradient(w, case.x, case.y) + case.weight_decay * w)
        yield case.result(w)


def one_client(case: ConformanceCase) -> Tensors:
    """The first client's steps, round after round."""
    w = case.start
    for number, rate in enumerate(case.rates):
        move = np.zeros_like(w)
        for batch in case.batches(number, 0):
            move = case.momentum * move - rate * (case.gradient(w, batch.x, batch.y) + case.weight_decay * w)
            w = w + move
        yield case.result(w)


def one_adam_w(case: ConformanceCase) -> Tensors:
    """The first client's AdamW, never interrupted: its moments are weighted means of all gradients so far."""
    w, seen = case.start, []
    first, second = case.options["first"], case.options["second"]
    for number, rate in enumerate(case.rates):
        for batch in case.batches(number, 0):
            seen.append(case.gradient(w, batch.x, batch.y))
            ages = np.arange(len(seen))[::-1]
            mean = np.average(seen, axis=0, weights=first**ages)
            square = np.average(np.square(seen), axis=0, weights=second**ages)
            w = (1 - rate * case.weight_decay) * w - rate * mean / (np.sqrt(square) + case.options["epsilon"])
        yield case.result(w)


def fed_avg(case: ConformanceCase) -> Tensors:
    """FedAvg."""
    for kept in loops.fed_avg(case):
        yield case.result(kept["model"])


def mean_of_products(case: ConformanceCase) -> Tensors:
    """The base with the mean of the clients' products B A, after a round."""
    clients = case.cohort(0)
    total = sum(case.sizes[i] for i in clients)
    own = case.tensors(case.start)
    update = np.zeros_like(own["base.weight"])
    for i in clients:
        end = case.tensors(loops.train(case, case.start, 0, i))
        update = update + case.sizes[i] / total * (end["lora_B"] @ end["lora_A"])
    yield {"weight": own["base.weight"] + update}
