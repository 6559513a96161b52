"""Tests of the norm that bounds the errors of methods with memory.

No exact round lengthens a state, measured in this norm, by more than the stated factor.
"""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from linear_methods import quietly, ragged

from ntkfl import kernel_regime
from ntkfl.limit.carried_errors import RunState, bounded_rounds, run_together
from ntkfl.limit.lyapunov import Motion, Moving, Steps
from ntkfl.problem import Setup

METHODS = (
    ("fedavgm", {"momentum": 0.9}),
    ("fedavgm", {"momentum": 0.3}),
    ("fedavgm", {"momentum": 0.8, "nesterov": True}),
    ("feddyn", {"alpha": 2.0}),
    ("feddyn", {"alpha": 0.05}),
    ("scaffold", {}),
)
EACH = pytest.mark.parametrize(("method", "options"), METHODS, ids=lambda part: str(part))


def schedule(method, rng, longest, wild=False, rounds=6):
    """Returns a schedule of step sizes at which clients contract, and of server rates if the method has one.

    With `wild` the server rates go beyond the limit.
    """
    steps = {"eta_local": (longest * rng.uniform(0.05, 0.95 if wild else 0.7, rounds)).tolist()}
    steps["local_steps"] = rng.integers(1, 12 if wild else 6, rounds).tolist()
    rates = rng.uniform(0.1, 4, rounds) if wild else rng.uniform(0.3, 1.4, rounds)
    return steps if method == "feddyn" else steps | {"eta_global": rates.tolist()}


def drawn(method, options, seed, wild=False):
    """Returns a problem, a regime with a random schedule, and the regime's bounds."""
    rng = np.random.default_rng(seed)
    problem = ragged(rng.integers(1, 9, rng.integers(2, 6)).tolist(), d=5, seed=seed, repeated=bool(seed % 2))
    longest = kernel_regime(problem, Setup(), None, "fedprox", {"mu": options.get("alpha", 0.0)}).step_limits.eta_local
    by_round = schedule(method, rng, longest, wild)
    regime = kernel_regime(problem, Setup(), None, method, options, matrix_free="float64", **by_round)
    return problem, regime, regime._carried(9)


def form(regime, norm, motion):
    """Returns the matrix of the squared norm in (x, memory), written out, and H."""
    rows, constants = np.arange(regime.problem.n), norm.constants
    weights, _ = motion.weights(constants) if norm.growth == 1 else motion.lengthened(constants)
    h, unit, a = regime.tiles[np.ix_(rows, rows)], motion.feedback.unit, motion.feedback.beyond - constants.shift
    inertia = regime._clients.apply(weights * motion.scale, np.eye(len(h)))
    corner = unit**2 * (a**2 * h + inertia - constants.subtracted * h)
    return np.block([[h, -a * unit * h], [-a * unit * h, corner]]), h


@quietly
@settings(max_examples=10)
@given(seed=st.integers(0, 9999), wild=st.booleans())
@EACH
def test_no_round_lengthens_its_norm_beyond_its_factor_and_the_next_is_within_its_own(method, options, seed, wild):
    """No round lengthens a state beyond the round's factor `growth`.

    The next round's norm of a state is at most `stretched` times this round's norm of the state.
    The squared norms are written as whole matrices, and rounds run as in the library.
    """
    problem, regime, bounds = drawn(method, options, seed, wild)
    assert isinstance(bounds, Moving) and len(bounds.norms) == 6
    steps = [bounds.steps_of(t) for t in range(6)]
    motions = [Motion.of(of_round, regime._clients) for of_round in steps]
    n, before = problem.n, None
    for of_round, motion, norm in zip(steps, motions, bounds.norms, strict=True):
        square, h = form(regime, norm, motion)
        model, memory = np.split(np.eye(2 * n), 2)
        move, (after,) = of_round.round.step(-h @ model, (memory,))
        mapped = np.concatenate([model + move, after])
        small = 1e-10 * np.linalg.norm(square, 2)
        assert np.linalg.eigvalsh(square)[0] >= -small
        assert norm.growth >= 1
        assert np.linalg.eigvalsh(norm.growth**2 * square - mapped.T @ square @ mapped)[0] >= -small * norm.growth**2
        reached = np.zeros_like(square)
        reached[:n, :n] = h
        assert np.linalg.eigvalsh(norm.reach**2 * square - reached)[0] >= -small
        drift, (memory_of_drift,) = of_round.round.step(np.eye(n), (np.zeros((n, n)),))
        seen = np.concatenate([drift, memory_of_drift])
        assert np.linalg.norm(seen.T @ square @ seen, 2) <= norm.by_drift**2 * (1 + 1e-10)
        assert norm.spread == np.inf or norm.growth == 1
        if norm.spread < np.inf:  # The squared norms of a state and of an additional error that clients see are summed.
            joint, together = np.hstack([mapped, seen]), norm.spread**2 * np.eye(3 * n)
            together[: 2 * n, : 2 * n] = norm.growth**2 * square
            least = np.linalg.eigvalsh(together - joint.T @ square @ joint)[0]
            assert least >= -1e-10 * np.linalg.norm(together, 2)
        # The server's move of SCAFFOLD uses the computed memory, together with the memory's error.
        forgotten = np.concatenate([motion.feedback.ahead * problem.n_clients**-1 * np.eye(n), np.eye(n)])
        assert np.linalg.norm(forgotten.T @ square @ forgotten, 2) <= norm.by_memory**2 * (1 + 1e-10)
        if before is not None:
            known, factor = before
            assert np.linalg.eigvalsh(factor**2 * known - square)[0] >= -1e-10 * np.linalg.norm(factor**2 * known, 2)
        before = square, norm.stretched
    assert bounds.norms[-1].stretched == 1


@quietly
@settings(max_examples=5)
@given(seed=st.integers(0, 9999), wild=st.booleans())
@EACH
def test_an_error_of_the_labels_is_within_its_bound_for_steps_that_change(method, options, seed, wild):
    """An error of the labels stays within its bound when steps change; every round sees the same error."""
    problem, regime, bounds = drawn(method, options, seed, wild)
    start = 1e-3 * np.random.default_rng(seed).standard_normal((problem.n, 1))
    state, seen = RunState.start(np.zeros((problem.n, 1)), regime._empty(start), float(np.linalg.norm(start))), []
    run = bounded_rounds(regime._onward, state, bounds, 9, lambda _, bounded: seen.append(bounded))
    run_together(regime.tiles.__matmul__, [run])
    off = regime.residual(range(10), problem.y - start[:, 0])
    for bounded, apart in zip(seen, off, strict=True):
        assert np.linalg.norm(apart) <= bounded.norm_error and np.abs(apart).max() <= bounded.entry_error


@quietly
@EACH
def test_the_bound_of_steps_that_fall_is_of_the_size_of_the_error(method, options):
    """If steps fall, the bound has the size of the error.

    The steps fall by a cosine to 1/25. At each compared round, the bound is compared with the largest error of float32
    tiles at this round and the compared rounds before it.
    """
    problem = ragged([6, 3, 9, 4], d=6)
    longest = kernel_regime(problem, Setup(), None, "fedprox", {"mu": options.get("alpha", 0.0)}).step_limits.eta_local
    cosine = longest * (0.26 + 0.24 * np.cos(np.pi * np.arange(61) / 60))
    known, exact = (
        kernel_regime(
            problem, Setup(local_steps=5), None, method, options, eta_local=cosine, matrix_free=how
        ).residual_estimate([1, 10, 30, 60])
        for how in ("float32", "float64")
    )
    off = np.abs(known.value - exact.value).max(axis=1)
    assert (off <= (known.error + exact.error).max(axis=1)).all()
    ratios = known.error.max(axis=1) / np.maximum.accumulate(off)
    assert (ratios[:2] < 1e4).all() and (ratios < 1e5).all() and exact.error.max() < 1e-8


@quietly
@pytest.mark.parametrize(
    ("method", "options"), [row for row in METHODS if row[0] != "feddyn"], ids=lambda part: str(part)
)
def test_a_round_beyond_the_limit_costs_about_its_own_growth(method, options):
    """One round beyond the limit enlarges the bound by about the factor by which this round enlarges an error.

    In one round the server step is 30. The factor of this round is at least the round's spectral radius, and less than
    1.2 times as large.
    """
    problem = ragged([6, 3, 9, 4], d=6)
    eta = kernel_regime(problem, Setup()).step_limits.eta_local / 2
    regime = kernel_regime(
        problem, Setup(eta_local=eta), None, method, options, eta_global=[1.0, 30.0, 1.0], matrix_free="float64"
    )
    before, beyond, after = regime._carried(5).norms
    unit, zero = np.eye(problem.n), np.zeros((problem.n, problem.n))
    residual, memory, _ = regime._of_round(1)._next(np.hstack([unit, zero]), (np.hstack([zero, unit]),))
    radius = np.abs(np.linalg.eigvals(np.vstack([residual, *memory]))).max()
    assert before.growth == after.growth == 1 and 2 < radius <= beyond.growth < 1.2 * radius
    # If every round has this server step, there is no error bound.
    with pytest.raises(ValueError, match="no error bound is proved for these steps"):
        kernel_regime(
            problem, Setup(eta_local=eta, eta_global=30.0), None, method, options, matrix_free="float64"
        ).residual_estimate(5)


@quietly
def test_clients_steps_beyond_their_limit_have_no_norm():
    problem = ragged([6, 3, 9, 4], d=6)
    eta = kernel_regime(problem, Setup()).step_limits.eta_local / 2
    with pytest.raises(ValueError, match="where every local step contracts"):
        kernel_regime(
            problem, Setup(), None, "feddyn", eta_local=[eta, 9 * eta, eta], matrix_free=True
        ).residual_estimate(5)


@quietly
@pytest.mark.parametrize(
    ("method", "options"),
    [("fedavgm", {"momentum": 0.9}), ("fedavgm", {"momentum": 0.9, "nesterov": True}), ("feddyn", {"alpha": 0.05})],
    ids=lambda part: str(part),
)
def test_where_c_is_one_number_the_norm_lasts_to_the_limit(method, options):
    """If C is one number, the norm can be used up to the limit.

    C is the quotient B / A of the functions in `ntkfl.limit.lyapunov`. The cases are momentum at 97 % of its largest
    server rate, and FedDyn with any alpha.
    """
    problem = ragged([6, 3, 9, 4], d=6)
    eta = kernel_regime(problem, Setup()).step_limits.eta_local / 2
    setup = Setup(eta_local=eta, local_steps=5)
    if method == "fedavgm":
        limit = kernel_regime(problem, setup, None, method, options).step_limits.eta_global
        options = options | {"server_rate": 0.97 * limit}
    regime = kernel_regime(problem, setup, None, method, options, matrix_free="float64")
    steps = Steps(regime.round, regime._margins, regime._largest)
    assert Moving.of(lambda t: steps, regime._clients).norms[0].stretched == 1
