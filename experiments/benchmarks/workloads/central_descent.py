"""Central gradient descent on ten outputs by products with the Gram matrix, against libraries for large kernels.

Our code computes the lower triangle of the matrix once, and takes products with it in square tiles.
"""

from collections.abc import Callable

import numpy as np

from experiments.benchmarks.workload import Call, Candidate, Sizes, Workload, unit_rows

STEPS, CLIENTS, RATE, OUTPUTS = 50, 20, 0.01, 10


def _given(sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    columns = np.random.default_rng(1).standard_normal((sizes["n"], OUTPUTS))
    return unit_rows(sizes["n"], sizes["d"]), columns


def _ours(sizes: Sizes) -> Call:
    """Compute the tiles, then fifty rounds of clients of equal size.

    Each client takes one local step a round, so that a round is one step on all samples.
    """
    from ntkfl import Problem, Setup, kernel_regime

    x, y = _given(sizes)
    problem, setup = Problem(x, y, np.arange(len(x)) % CLIENTS), Setup(eta_local=CLIENTS * RATE, local_steps=1)
    return lambda: kernel_regime(problem, setup, method="fedavg", matrix_free="float64").outputs(STEPS)


def _step_by_step(sizes: Sizes) -> Call:
    """Compute the tiles, then one product with them for every step."""
    from ntkfl import gram
    from ntkfl.gram.tiles import Tiles

    x, y = _given(sizes)

    def work() -> np.ndarray:
        tiles, outputs = Tiles.of(gram.infinite, x, "float64"), np.zeros_like(y)
        for _ in range(STEPS):
            outputs = outputs + RATE * (tiles @ (y - outputs))
        return outputs

    return work


def _elsewhere(script: str) -> Callable[[Sizes], Call]:
    def build(sizes: Sizes) -> Call:
        from experiments.benchmarks.elsewhere import timed_there

        x, y = _given(sizes)
        given = {"x": x, "y": y, "rate": np.array(RATE), "steps": np.array(STEPS)}
        return lambda: timed_there(script, given, 2)

    return build


WORKLOAD = Workload(
    name="central-descent",
    says=f"{STEPS} steps of gradient descent with H_inf, n samples of d features, {OUTPUTS} columns, float64",
    sizes=({"n": 4000, "d": 32}, {"n": 8000, "d": 32}),
    candidates=(
        Candidate("ntkfl", _ours, "ours"),
        Candidate("ntkfl, a product each step", _step_by_step, "also ours"),
        Candidate("KeOps", _elsewhere("descent_by_keops"), peer="keops"),
        Candidate("GPyTorch", _elsewhere("descent_by_gpytorch"), peer="gpytorch"),
    ),
    along="n",
    tolerance=1e-6,
)
