"""Federated training at infinite width with ten outputs, against loops over rounds; the Gram matrix is given."""

import numpy as np

from experiments.benchmarks.workload import Call, Candidate, Sizes, Workload, unit_rows

STEPS, RATE, OUTPUTS, LOOKS, SWEPT = 5, 0.1, 10, 20, 8


def _given(sizes: Sizes):
    from ntkfl import Problem, Setup, gram

    n, rng = sizes["n"], np.random.default_rng(1)
    problem = Problem(unit_rows(n, 32), rng.standard_normal((n, OUTPUTS)), np.arange(n) % sizes["N"])
    setup = Setup(eta_local=RATE, local_steps=STEPS, rounds=sizes["T"])
    return problem, setup, gram.infinite(problem.x)


def _looked_at(sizes: Sizes) -> list[int]:
    return [sizes["T"] * k // LOOKS for k in range(1, LOOKS + 1)]


def _ours(sizes: Sizes) -> Call:
    """Prepare the kernel regime, and compute the outputs after each of 20 evenly spaced rounds."""
    from ntkfl.limit.infinite_width import KernelRegime

    problem, setup, h = _given(sizes)
    return lambda: KernelRegime(problem, setup, h).outputs(_looked_at(sizes))


def _swept(sizes: Sizes) -> Call:
    """The outputs for several server step sizes, from one preparation.

    Only the outputs for the first step size are returned. The other candidates use this step size too.
    """
    from dataclasses import replace

    from ntkfl.limit.infinite_width import KernelRegime

    problem, setup, h = _given(sizes)

    def work():
        regime = KernelRegime(problem, setup, h)
        steps = (replace(setup, eta_global=1 / (1 + k)) for k in range(SWEPT))
        first, *_ = [regime.at(step).outputs(_looked_at(sizes)) for step in steps]
        return first

    return work


def _round_by_round(sizes: Sizes) -> Call:
    """A product with the n x n matrix of a round, for every round."""
    from ntkfl.limit.infinite_width import KernelRegime

    problem, setup, h = _given(sizes)

    def work():
        one_round, residual, outputs = KernelRegime(problem, setup, h).round_map, problem.y, []
        looks = set(_looked_at(sizes))
        for t in range(1, sizes["T"] + 1):
            residual = one_round @ residual
            if t in looks:
                outputs.append(problem.y - residual)
        return np.array(outputs)

    return work


def _step_by_step(sizes: Sizes) -> Call:
    """Every local step of every client, one after the other, as the algorithm is written."""
    problem, _, h = _given(sizes)
    clients = problem.members
    own = [h[np.ix_(mine, mine)] for mine in clients]

    def work():
        residual, outputs = problem.y.copy(), []
        looks = set(_looked_at(sizes))
        for t in range(1, sizes["T"] + 1):
            moved = np.empty_like(residual)
            for mine, block in zip(clients, own, strict=True):
                left, total = residual[mine], 0.0
                for _ in range(STEPS):
                    total = total + left
                    left = left - RATE * (block @ left)
                moved[mine] = RATE * total
            residual = residual - h @ moved / len(clients)
            if t in looks:
                outputs.append(problem.y - residual)
        return np.array(outputs)

    return work


def _eigh(sizes: Sizes) -> Call:
    """One eigendecomposition of the Gram matrix."""
    *_, h = _given(sizes)
    return lambda: np.linalg.eigh(h)[0]


WORKLOAD = Workload(
    name="kernel-regime",
    says="kernel regime, n samples, 10 outputs, N clients, looked at 20 times in T rounds",
    sizes=({"n": 500, "N": 10, "T": 1000}, {"n": 1000, "N": 10, "T": 1000}, {"n": 2000, "N": 10, "T": 1000}),
    candidates=(
        Candidate("ntkfl", _ours, "ours"),
        Candidate("ntkfl, 8 server steps", _swept, "also ours"),
        Candidate("step by step", _step_by_step),
        Candidate("round by round", _round_by_round),
        Candidate("one eigh", _eigh, "limit"),
    ),
    along="n",
    tolerance=1e-8,
)
