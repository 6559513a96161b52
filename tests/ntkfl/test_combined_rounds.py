"""Tests of moments of rounds in which clients and batches are drawn, noise is added and the steps change, often all at
once.

The moments are compared with means over all draws. For each draw, a run takes every step on the weights.
"""

import itertools

import numpy as np
import pytest
from linear_methods import ragged

from ntkfl import Setup, gram, random_rounds

pytestmark = pytest.mark.filterwarnings("ignore::ntkfl.limit.infinite_width.UnstableSteps")
BY_SIZE = ("fedavg", "fedavgm", "fedprox")  # methods that weigh clients by their samples
NESTEROV = {"momentum": 0.7, "nesterov": True}
# The entries are: sizes of the clients, method, options, K, eta_local and eta_global by round, what is drawn.
CASES = {
    "scaffold, drawn": ((2, 1, 2), "scaffold", {}, 2, [0.5, 0.2], [1.5, 0.7], {"cohort": 2, "batch": 1, "noise": 0.3}),
    "scaffold, in turn": (
        (2, 2, 1),
        "scaffold",
        {},
        2,
        [0.3, 0.6],
        [0.8, 1.7, 1.1],
        {"cohorts": [[0, 2], [1]], "batch": 1, "noise": 0.2},
    ),
    "nesterov, in turn": (
        (3, 1, 2),
        "fedavgm",
        NESTEROV,
        1,
        [0.4, 0.3],
        [1.0, 0.6],
        {"cohorts": [[0, 1], [2], [1, 2]], "batch": 2, "noise": 0.2},
    ),
    "nesterov, passes in turn": (
        (2, 1, 2),
        "fedavgm",
        NESTEROV,
        2,
        [0.3, 0.15],
        [1.3, 0.9],
        {"cohorts": [[0, 1], [2]], "batch": 1, "shuffled": True, "noise": 0.1},
    ),
    "heavy ball, passes, drawn": (
        (3, 1, 2),
        "fedavgm",
        {"momentum": 0.5},
        1,
        [0.3, 0.15],
        [1.3, 0.9],
        {"cohort": 2, "batch": 1, "shuffled": True, "noise": 0.2},
    ),
    "feddyn, in turn": (
        (2, 1, 2),
        "feddyn",
        {"alpha": 0.6},
        2,
        [0.3, 0.5],
        [1.0],
        {"cohorts": [[0, 1], [1, 2]], "batch": 1},
    ),
    "scaffold, passes by round, drawn": (
        (2, 1, 3),
        "scaffold",
        {},
        [2, 1],
        [0.3, 0.4],
        [1.2, 0.8],
        {"cohort": 2, "batch": 1, "shuffled": True, "noise": 0.2},
    ),
    "fedprox, uneven passes by round in turn": (
        (3, 2),
        "fedprox",
        {"mu": 0.8},
        [2, 1],
        [0.3, 0.2],
        [1.4, 0.7],
        {"cohorts": [[0, 1], [1]], "batch": 2, "shuffled": True, "noise": 0.2},
    ),
    "nesterov, uneven passes, drawn": (
        (3, 1, 2),
        "fedavgm",
        NESTEROV,
        1,
        [0.3, 0.15],
        [1.3, 0.9],
        {"cohort": 2, "batch": 2, "shuffled": True, "noise": 0.2},
    ),
    "scaffold, uneven passes by round, drawn": (
        (3, 2),
        "scaffold",
        {},
        [1, 2],
        [0.3, 0.4],
        [1.2, 0.8],
        {"cohort": 1, "batch": 2, "shuffled": True, "noise": 0.1},
    ),
    "feddyn, uneven passes in turn": (
        (3, 2),
        "feddyn",
        {"alpha": 0.7},
        1,
        [0.4, 0.2],
        [1.0],
        {"cohorts": [[0], [0, 1]], "batch": 2, "shuffled": True},
    ),
    "scaffold I, passes in turn": (
        (2, 4),
        "scaffold",
        {"option": "I"},
        2,
        [0.8],
        [1.2],
        {"cohorts": [[1], [0, 1]], "batch": 2, "shuffled": True},
    ),
    "feddyn, passes by round, drawn": (
        (2, 1, 2),
        "feddyn",
        {"alpha": 0.9},
        [1, 3],
        [0.4, 0.2],
        [1.0],
        {"cohort": 2, "batch": 1, "shuffled": True, "noise": 0.3},
    ),
    "feddyn, noise and steps by round in turn": (
        (2, 1, 2),
        "feddyn",
        {"alpha": 0.6},
        [2, 1, 3],
        [0.3, 0.5],
        [1.0],
        {"cohorts": [[0, 1], [1], [0, 1, 2]], "batch": 2, "noise": 0.3},
    ),
    "heavy ball, steps by round": (
        (2, 1, 2),
        "fedavgm",
        {"momentum": 0.5},
        [1, 3, 2],
        [0.3, 0.15],
        [1.3, 0.9],
        {"cohort": 2, "batch": 1, "noise": 0.2},
    ),
    "fedprox, drawn": (
        (3, 2, 1),
        "fedprox",
        {"mu": 0.8},
        2,
        [0.3, 0.4],
        [1.4, 0.7],
        {"cohort": 2, "batch": 2, "noise": 0.2},
    ),
}


def sequences(size, batch, steps, shuffled):
    """Returns every sequence of a client's batches in a round; all are equally likely."""
    if not shuffled:
        return list(itertools.product(itertools.combinations(range(size), min(batch, size)), repeat=steps))
    once = [tuple(order[i : i + batch] for i in range(0, size, batch)) for order in itertools.permutations(range(size))]
    return [sum(passes, ()) for passes in itertools.product(once, repeat=steps)]


def moved(method, options, problem, features, eta, server, cohort, taken, states):
    """Returns the states (weights, memories, 1) after a round of a cohort with these batches."""
    n, clients, members = problem.n, problem.n_clients, problem.members
    weights, *memory = np.split(states[:-1], len(states) // n)
    one, after, moves = states[-1:], list(memory), []
    for client, batches in zip(cohort, taken, strict=True):
        own = members[client]
        model = weights
        for batch in batches:
            at = own[list(batch)]
            gradient = len(own) / len(at) * features[at].T @ (features[at] @ model - np.outer(problem.y[at], one))
            if method == "scaffold":
                gradient = gradient - memory[client] + sum(memory) / clients
            elif method in ("feddyn", "fedprox"):
                gradient = gradient + options.get("alpha", options.get("mu")) * (model - weights)
                gradient = gradient - (memory[client] if method == "feddyn" else 0)
            model = model - eta * gradient
        move = model - weights
        moves.append(move)
        if options.get("option") == "I":
            after[client] = features[own].T @ (features[own] @ weights - np.outer(problem.y[own], one))
        elif method == "scaffold":
            after[client] = memory[client] - sum(memory) / clients - move / (len(batches) * eta)
        elif method == "feddyn":
            after[client] = memory[client] - options["alpha"] * move
    shares = np.array([len(members[client]) if method in BY_SIZE else 1.0 for client in cohort])
    mean = np.tensordot(shares / shares.sum(), moves, 1)
    step = server * mean
    if method == "fedavgm":
        velocity = options["momentum"] * memory[0] + mean
        step = server * (mean + options["momentum"] * velocity if options.get("nesterov") else velocity)
        after = [velocity]
    elif method == "feddyn":
        after[-1] = memory[-1] - options["alpha"] * len(cohort) / clients * mean
        step = mean - after[-1] / options["alpha"]
    return np.concatenate([weights + step, *after, one])


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("name", CASES)
def test_moments_of_combined_rounds_are_those_over_every_draw(name):
    sizes, method, options, steps, eta_local, eta_global, drawn = CASES[name]
    problem, rounds = ragged(sizes, seed=len(name)), 4
    n, noise, shuffled = problem.n, drawn.get("noise", 0.0), drawn.get("shuffled", False)
    features = np.linalg.cholesky(gram.infinite(problem.x))
    parts = 1 + {"scaffold": len(sizes), "feddyn": len(sizes) + 1, "fedavgm": 1}.get(method, 0)
    unit = np.eye(parts * n + 1)
    second, mean = np.outer(unit[-1], unit[-1]), unit[-1]
    # the linear map from a state to the residual
    seen = np.concatenate([-features, np.zeros((n, n * (parts - 1))), problem.y[:, None]], axis=1)
    given = {"noise": noise, "batch_size": drawn["batch"], "shuffled": shuffled, "eta_local": eta_local}
    given |= {} if method == "feddyn" else {"eta_global": eta_global}
    by_round = steps if isinstance(steps, list) else [steps]
    given |= {"local_steps": steps} if isinstance(steps, list) else {}
    if "cohorts" in drawn:
        given["cohorts"] = drawn["cohorts"]
    else:
        given["participation"] = drawn["cohort"] / len(sizes)
    regime = random_rounds(problem, Setup(local_steps=by_round[0]), None, method, options, **given)
    for now in range(rounds):
        eta, server = eta_local[min(now, len(eta_local) - 1)], eta_global[min(now, len(eta_global) - 1)]
        local = by_round[min(now, len(by_round) - 1)]
        cohorts = [drawn["cohorts"][now % len(drawn["cohorts"])]] if "cohorts" in drawn else None
        cohorts = cohorts or list(itertools.combinations(range(len(sizes)), drawn["cohort"]))
        following, onward = np.zeros_like(second), np.zeros_like(mean)
        for cohort in cohorts:
            ways = list(itertools.product(*(sequences(sizes[c], drawn["batch"], local, shuffled) for c in cohort)))
            for taken in ways:
                step = moved(method, options, problem, features, eta, server, cohort, taken, unit)
                chance = 1 / (len(cohorts) * len(ways))
                following, onward = following + chance * step @ second @ step.T, onward + chance * step @ mean
        second, mean = following, onward
        jump = np.zeros(parts)
        jump[0] = server * (1 + options["momentum"] if options.get("nesterov") else 1)
        jump[1:] = method == "fedavgm"
        if method == "feddyn":
            share = len(cohorts[0]) / len(sizes)
            jump[0], jump[-1] = 1 + share, -options["alpha"] * share
        second[:-1, :-1] += noise**2 * np.kron(np.outer(jump, jump), np.eye(n))
        residual, moments = seen @ mean, seen @ second @ seen.T
        scale = np.trace(moments)
        spread = moments - np.outer(residual, residual)
        assert np.abs(regime.residual(now + 1) - residual).max() <= 1e-12 * scale**0.5
        assert np.abs(regime.covariance(now + 1) - spread).max() <= 1e-12 * scale and np.trace(spread) > 1e-3 * scale
        assert regime.root_mean_square(now + 1) ** 2 == pytest.approx(scale, rel=1e-12)
