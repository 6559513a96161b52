"""Three rounds of Algorithm 1, clients of equal size, five full-batch steps, against a loop with autograd."""

from __future__ import annotations

from experiments.benchmarks.workload import Call, Candidate, Sizes, Workload, unit_rows

ROUNDS, STEPS, RATE = 3, 5, 0.002


def _given(sizes: Sizes):
    import numpy as np

    from ntkfl.initialisation import draw

    n, rng = sizes["n"], np.random.default_rng(1)
    owner = np.arange(n) % sizes["N"]
    return unit_rows(n, sizes["d"]), rng.choice([-1.0, 1.0], n), owner, draw(sizes["m"], sizes["d"], 0)


def _simulated(sizes: Sizes, **options) -> Call:
    from ntkfl import Problem, Setup, simulate

    x, y, owner, weights = _given(sizes)
    setup = Setup(width=sizes["m"], eta_local=RATE, eta_global=1.0, local_steps=STEPS, rounds=ROUNDS)
    problem = Problem(x, y, owner)
    return lambda: simulate(problem, setup, weights, **options).outputs


def _ours(sizes: Sizes) -> Call:
    return _simulated(sizes, movements=False)


def _with_movements(sizes: Sizes) -> Call:
    return _simulated(sizes)


def _loop(sizes: Sizes) -> Call:
    """One client after the other, gradients by autograd, float64."""
    import numpy as np
    import torch

    x, y, owner, weights = _given(sizes)
    signs = torch.tensor(weights.signs) / len(weights.signs) ** 0.5
    clients = [(torch.tensor(x[owner == c]), torch.tensor(y[owner == c])) for c in range(sizes["N"])]

    def outputs(u):
        return (torch.relu(torch.tensor(x) @ u.T) @ signs).numpy()

    def work():
        u = torch.tensor(weights.hidden)
        path = [outputs(u)]
        for _ in range(ROUNDS):
            change = torch.zeros_like(u)
            for rows, labels in clients:
                w = u.clone().requires_grad_(True)
                for _ in range(STEPS):
                    (slope,) = torch.autograd.grad(((torch.relu(rows @ w.T) @ signs - labels) ** 2).sum() / 2, w)
                    with torch.no_grad():
                        w -= RATE * slope
                change += w.detach() - u
            u = u + change / len(clients)
            path.append(outputs(u))
        return np.array(path)

    return work


WORKLOAD = Workload(
    name="algorithm1",
    says="Algorithm 1, n samples of d features, m neurons, N clients",
    sizes=(
        {"n": 1000, "d": 32, "m": 4096, "N": 10},
        {"n": 1000, "d": 32, "m": 4096, "N": 100},
        {"n": 1000, "d": 784, "m": 4096, "N": 100},
    ),
    candidates=(
        Candidate("ntkfl", _ours, "ours"),
        Candidate("ntkfl, with movements", _with_movements, "also ours"),
        Candidate("autograd loop", _loop),
    ),
    along="N",
    tolerance=1e-9,
)
