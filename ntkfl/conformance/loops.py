"""Reference implementations of methods, written from their formulas in plain numpy.

Clients are trained one after the other. All parameters of a model are one vector w. In the code, i is a client, t a
round from 0, Delta_i the client's move from w, and p_i its weight.

This file is the reference of the conformance kit and at the same time an adapter, since `run` takes a case. Only numpy
is imported. Every step has a line of its own, so that `ntkfl.conformance.variants` can change one line at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ntkfl.conformance.conformance_case import ConformanceCase

Added = Any  # a function of w: the term that is added to the gradient at w
States = Iterator[dict[str, np.ndarray]]


def run(case: ConformanceCase) -> States:
    """Yields the tensors of the model by name, and the method's other state, after every round."""
    for kept in LOOPS[case.method](case, **case.options):
        yield case.result(kept["model"]) | {name: value for name, value in kept.items() if name != "model"}


def nothing(w: np.ndarray) -> float:
    """The term if nothing is added to the gradient: 0."""
    return 0.0


def train(case: ConformanceCase, w: np.ndarray, t: int, i: int, added: Added = nothing) -> np.ndarray:
    """The model of client i after round t, by SGD with momentum from w. `added(w)` is added to each gradient."""
    rate = case.rates[t]
    velocity = np.zeros_like(w)
    for x, y, _, _ in case.batches(t, i):
        gradient = case.gradient(w, x, y)
        gradient = gradient + added(w)
        gradient = clipped(case, gradient)
        gradient = gradient + case.weight_decay * w
        velocity[:] = case.momentum * velocity + gradient
        w = w - rate * velocity
    return w


def clipped(case: ConformanceCase, gradient: np.ndarray) -> np.ndarray:
    """The gradient, shortened to the norm `clip` of the case if it is longer."""
    if case.clip is None:
        return gradient
    return gradient * min(1.0, case.clip / np.linalg.norm(gradient))


def displacement(case: ConformanceCase, steps: int, pull: float = 0.0) -> float:
    """a_i: how far the optimizer, with its momentum, moves in `steps` steps of rate 1 if the loss has the gradient 1.

    A proximal term of strength `pull` draws the position back to its start.
    """
    position = velocity = 0.0
    for _ in range(steps):
        velocity = case.momentum * velocity + (1 + pull * position)
        position -= velocity
    return -position


def shares(case: ConformanceCase, t: int) -> list[float]:
    """The weights p_i: each client's share of all samples of the cohort of round t."""
    clients = case.cohort(t)
    total = sum(case.sizes[i] for i in clients)
    return [case.sizes[i] / total for i in clients]


def mean_move(case: ConformanceCase, w: np.ndarray, t: int, added: Added = nothing) -> Any:
    """D = sum_i p_i Delta_i over the cohort of round t."""
    clients = case.cohort(t)
    moves = [train(case, w, t, i, added) - w for i in clients]
    return sum(p * move for p, move in zip(shares(case, t), moves, strict=True))


def uniform_move(case: ConformanceCase, w: np.ndarray, t: int) -> Any:
    """The mean with equal weights of the moves of the cohort of round t."""
    clients = case.cohort(t)
    return sum(train(case, w, t, i) - w for i in clients) / len(clients)


def fed_avg(case: ConformanceCase, server_rate: float = 1.0, mu: float = 0.0) -> States:
    """FedAvg, McMahan et al. 2017; if mu is not 0, FedProx (Li et al. 2020)."""
    w = case.start
    for t in range(case.rounds):
        d = mean_move(case, w, t, lambda v, w=w: mu * (v - w))
        w = w + server_rate * d
        yield {"model": w}


def fed_avg_aligned(case: ConformanceCase, server_rate: float = 1.0) -> States:
    """FedAvg of clients' models whose hidden units are permuted to be nearest to w.

    If there is only one client, its units are not permuted.
    """
    w = case.start
    for t in range(case.rounds):
        clients = case.cohort(t)
        ends = [train(case, w, t, i) for i in clients]
        if len(clients) > 1:
            ends = [nearest(case, end, w) for end in ends]
        w = w + server_rate * sum(p * (end - w) for p, end in zip(shares(case, t), ends, strict=True))
        yield {"model": w}


def cyclic(case: ConformanceCase, server_rate: float = 1.0) -> States:
    """The clients of a round train one after the other, each from the model after the previous client."""
    w = case.start
    for t in range(case.rounds):
        for turn in case.cohort(t):
            w = w + server_rate * (train(case, w, t, turn) - w)
        yield {"model": w}


def nearest(case: ConformanceCase, end: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The client's model with its hidden units in the order nearest to w.

    Models without hidden units are not changed.
    """
    if case.model != "network":
        return end
    closest, own = end, case.tensors(end)
    for order in map(list, permutations(range(len(own["body.0.bias"])))):
        turned = {name: own[name][order] for name in ("body.0.weight", "body.0.bias")}
        turned |= {"head.weight": own["head.weight"][:, order], "head.bias": own["head.bias"]}
        if np.sum((case.flat(turned) - w) ** 2) < np.sum((closest - w) ** 2):
            closest = case.flat(turned)
    return closest


def fed_avg_m(case: ConformanceCase, momentum: float = 0.9, nesterov: bool = False, server_rate: float = 1.0) -> States:
    """FedAvgM, Hsu et al. 2019."""
    yield from with_momentum(case, mean_move, momentum, nesterov, server_rate)


def diloco(case: ConformanceCase, momentum: float = 0.9, server_rate: float = 0.7) -> States:
    """DiLoCo, Douillard et al. 2023: Nesterov's method on the workers' mean move; inner steps are SGD."""
    yield from with_momentum(case, uniform_move, momentum, True, server_rate)


def diloco_adam_w(
    case: ConformanceCase,
    momentum: float = 0.9,
    server_rate: float = 0.7,
    first: float = 0.9,
    second: float = 0.999,
    epsilon: float = 1e-8,
) -> States:
    """DiLoCo with its paper's inner optimizer, AdamW.

    Each worker keeps the moments and the step count of its AdamW from round to round.
    """
    kept: dict[int, Any] = {}

    def adam_w_move(case: ConformanceCase, w: np.ndarray, t: int) -> Any:
        workers = case.cohort(t)
        ends = [adam_w(case, w, t, i, kept, first, second, epsilon) for i in workers]
        return sum(end - w for end in ends) / len(workers)

    yield from with_momentum(case, adam_w_move, momentum, True, server_rate)


def adam_w(
    case: ConformanceCase, w: np.ndarray, t: int, i: int, kept: Any, first: float, second: float, epsilon: float
) -> np.ndarray:
    """The model of worker i after round t, by AdamW (Loshchilov and Hutter 2019) from w.

    The case's momentum is not used. Weight decay is decoupled from the gradient and multiplied by the rate.
    """
    m, v, count = kept.get(i, (0.0, 0.0, 0))
    for batch in case.batches(t, i):
        g = case.gradient(w, batch.x, batch.y)
        g = clipped(case, g)
        count = count + 1
        m = first * m + (1 - first) * g
        v = second * v + (1 - second) * g**2
        m_hat, v_hat = m / (1 - first**count), v / (1 - second**count)
        w = w - case.rates[t] * case.weight_decay * w
        w = w - case.rates[t] * m_hat / (np.sqrt(v_hat) + epsilon)
    kept[i] = m, v, count
    return w


def with_momentum(case: ConformanceCase, mean: Any, momentum: float, nesterov: bool, server_rate: float) -> States:
    """A server that applies momentum to the mean moves."""
    w = case.start
    v = np.zeros_like(w)
    for t in range(case.rounds):
        d = mean(case, w, t)
        v = momentum * v + d
        step = d + momentum * v if nesterov else v
        w = w + server_rate * step
        yield {"model": w, "momentum": v}


def fl_ntk(case: ConformanceCase, server_rate: float = 1.0) -> States:
    """Algorithm 1 of FL-NTK, in which all clients have equal weights."""
    w = case.start
    for t in range(case.rounds):
        move = uniform_move(case, w, t)
        w = w + server_rate * move
        yield {"model": w}


def local(case: ConformanceCase) -> States:
    """Every client trains alone. The server's model does not change."""
    own = np.tile(case.start, (case.population, 1))
    for t in range(case.rounds):
        for i in case.cohort(t):
            own[i] = train(case, own[i], t, i)
        yield {"model": case.start, "client_models": own.copy()}


def fed_dyn(case: ConformanceCase, alpha: float = 0.01) -> States:
    """FedDyn, Acar et al. 2021."""
    w = case.start
    g, h = np.zeros((case.population, len(w)), w.dtype), np.zeros_like(w)
    for t in range(case.rounds):
        clients, ends = case.cohort(t), []
        for i in clients:
            end = train(case, w, t, i, lambda v, w=w, i=i: alpha * (v - w) - g[i])
            g[i] = g[i] - alpha * (end - w)
            ends.append(end)
        h = h - alpha * sum(end - w for end in ends) / case.population
        w = sum(ends) / len(ends) - h / alpha
        yield {"model": w, "client_duals": g.copy(), "dual": h}


def scaffold(case: ConformanceCase, option: str = "II", server_rate: float = 1.0) -> States:
    """SCAFFOLD, Karimireddy et al. 2020."""
    w = case.start
    c_i, c = np.zeros((case.population, len(w)), w.dtype), np.zeros_like(w)
    for t in range(case.rounds):
        clients, moves, changes = case.cohort(t), [], []
        for i in clients:
            end = train(case, w, t, i, lambda v, i=i, c=c: c - c_i[i])
            if option == "I":
                new = case.gradient(w, *case.samples(i))
            else:
                steps = displacement(case, len(case.batches(t, i)))
                new = c_i[i] - c + (w - end) / (steps * case.rates[t])
            changes.append(new - c_i[i])
            moves.append(end - w)
            c_i[i] = new
        w = w + server_rate * sum(moves) / len(clients)
        c = c + sum(changes) / case.population
        yield {"model": w, "client_controls": c_i.copy(), "control": c}


def fed_nova(case: ConformanceCase, mu: float = 0.0) -> States:
    """FedNova, Wang et al. 2020."""
    w = case.start
    for t in range(case.rounds):
        clients = case.cohort(t)
        steps, direction = 0.0, np.zeros_like(w)
        for p, i in zip(shares(case, t), clients, strict=True):
            end = train(case, w, t, i, lambda v, w=w: mu * (v - w))
            a = displacement(case, len(case.batches(t, i)), case.rates[t] * mu)
            direction = direction + p * (end - w) / a
            steps = steps + p * a
        w = w + steps * direction
        yield {"model": w}


def fed_adam(
    case: ConformanceCase,
    server_rate: float = 0.01,
    first: float = 0.9,
    second: float = 0.99,
    tau: float = 1e-3,
    yogi: bool = False,
) -> States:
    """FedAdam and, with `yogi`, FedYogi, Reddi et al. 2021."""
    w = case.start
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t in range(case.rounds):
        d = mean_move(case, w, t)
        m = first * m + (1 - first) * d
        grown = v - (1 - second) * d**2 * np.sign(v - d**2)
        v = grown if yogi else second * v + (1 - second) * d**2
        w = w + server_rate * m / (np.sqrt(v) + tau)
        yield {"model": w, "first_moment": m, "second_moment": v}


def fed_adagrad(case: ConformanceCase, server_rate: float = 0.1, first: float = 0.0, tau: float = 1e-3) -> States:
    """FedAdagrad, Reddi et al. 2021: the sum of squares starts at tau^2, the smallest value that Algorithm 2 allows."""
    w = case.start
    mean, squares = np.zeros_like(w), np.full_like(w, tau**2)
    for t in range(case.rounds):
        d = mean_move(case, w, t)
        mean = first * mean + (1 - first) * d
        squares = squares + d**2
        w = w + server_rate * mean / (np.sqrt(squares) + tau)
        yield {"model": w, "first_moment": mean, "second_moment": squares}


def dp_fed_avg(case: ConformanceCase, bound: float = 1.0, noise: float = 1.0, cap: float = 1.0) -> States:
    """DP-FedAvg, McMahan et al. 2018.

    Noise is added to the sum of clipped moves, and the result is divided by the expected weight of the sum.
    """
    w = case.start
    counts = [min(n / cap, 1.0) for n in case.sizes]
    for t in range(case.rounds):
        clients = case.cohort(t)
        expected = sum(counts) * len(clients) / case.population
        moves = [train(case, w, t, i) - w for i in clients]
        moves = [bounded(case, move) for move in moves]
        total = sum(counts[i] * move for i, move in zip(clients, moves, strict=True))
        total = total + noise * bound * case.noise[t]
        w = w + total / expected
        yield {"model": w}


def bounded(case: ConformanceCase, move: np.ndarray) -> np.ndarray:
    """The move, shortened to the norm in the case's option `bound` if it is longer."""
    return move / max(1.0, np.linalg.norm(move) / case.options["bound"])


def fed_gma(
    case: ConformanceCase, threshold: float = 0.8, mask: str = "soft", released: bool = False, server_rate: float = 1.0
) -> States:
    """FedGMA, Tenison et al. 2023. If `released`, FedGMA is computed as in IMA's code, but independently of the order
    of clients.

    The agreement that is compared with `threshold` is the size of the mean sign over clients.
    """
    if released:
        yield from fed_gma_released(case, threshold, overwritten=False)
        return
    w = case.start
    for t in range(case.rounds):
        clients = case.cohort(t)
        moves = np.array([train(case, w, t, i) - w for i in clients])
        agreement = abs(np.sign(moves).sum(axis=0)) / len(clients)
        below = np.zeros_like(agreement) if mask == "hard" else agreement
        factor = np.where(agreement >= threshold, 1, below).astype(w.dtype)
        d = sum(p * move for p, move in zip(shares(case, t), moves, strict=True))
        w = w + server_rate * factor * d
        yield {"model": w}


def fed_gma_released(case: ConformanceCase, threshold: float, overwritten: bool = True) -> States:
    """FedGMA as in IMA's code.

    A client's move is its own model minus the received model. If `overwritten`, the next client's move is its own model
    minus the sum so far.
    """
    w: Any = case.start
    for t in range(case.rounds):
        clients = case.cohort(t)
        ends = [train(case, w, t, client) for client in clients]
        counter = sum(np.sign(end - w) for end in ends)
        received: Any = w
        total = sum(p * end for p, end in zip(shares(case, t), ends, strict=True))
        for end in ends:
            move = end - received
            agrees = ((move > 0) == (counter > 0)) & (abs(counter) > threshold * len(clients))
            total = total - 1e-4 * np.where(agrees, move, 0) / len(clients)
            received = total if overwritten else w
        w = total
        yield {"model": w}


LOOPS: dict[str, Callable[..., States]] = {
    "cyclic": cyclic,
    "diloco": diloco,
    "diloco-adamw": diloco_adam_w,
    "dp-fedavg": dp_fed_avg,
    "fedadagrad": fed_adagrad,
    "fedadam": fed_adam,
    "fedavg": fed_avg,
    "fedavg-aligned": fed_avg_aligned,
    "fedavgm": fed_avg_m,
    "feddyn": fed_dyn,
    "fedgma": fed_gma,
    "fednova": fed_nova,
    "fedprox": fed_avg,
    "fedyogi": partial(fed_adam, yogi=True),
    "fl-ntk": fl_ntk,
    "local": local,
    "scaffold": scaffold,
}
