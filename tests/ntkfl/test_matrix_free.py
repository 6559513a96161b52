"""Tests of rounds with the Gram matrix in tiles against rounds with the whole matrix."""

import re
import signal
import threading
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from linear_methods import EACH, quietly, ragged
from threadpoolctl import threadpool_limits

from ntkfl import data, gram, kernel_regime, memory, random_rounds
from ntkfl.estimate import Estimate, Rigour
from ntkfl.exact_dynamics import KernelRegime, MatrixFreeRegime, MovingWindow, UnstableSteps, of_method
from ntkfl.gram import limit, tiles
from ntkfl.gram.tiles import Tiles
from ntkfl.limit import lanczos
from ntkfl.problem import Problem, Setup

STEPS = Setup(eta_local=0.3, local_steps=3)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Makes tiles small, so that matrices of tens of rows have several slabs of several tiles."""
    monkeypatch.setattr(tiles, "SLAB", 12)
    monkeypatch.setattr(tiles, "TILE", 4)


def several_outputs(seed=0):
    problem = ragged([1, 9, 20, 7], seed=seed)
    return Problem(problem.x, np.random.default_rng(seed).uniform(-1, 1, (problem.n, 3)), problem.owner)


@settings(max_examples=25)
@given(n=st.integers(1, 40), seed=st.integers(0, 99), dtype=st.sampled_from(["float64", "float32"]))
def test_products_and_blocks_are_the_matrix_s(n, seed, dtype):
    rng = np.random.default_rng(seed)
    x, v = rng.standard_normal((n, 3)), rng.standard_normal((n, 2))
    h, tiles = gram.infinite(x), Tiles.of(gram.infinite, x, dtype)
    rows, columns = rng.permutation(n)[: n // 2 + 1], rng.permutation(n)
    stored = np.asarray(tiles)
    assert np.linalg.norm(stored - h) <= tiles.error
    assert tiles.norm == pytest.approx(np.linalg.norm(stored), rel=1e-12)
    assert np.linalg.norm(tiles @ v - stored @ v) <= 2 * tiles.product_rounding * np.linalg.norm(v)
    assert (tiles[np.ix_(rows, columns)] == stored[np.ix_(rows, columns)]).all()
    assert (tiles[rows] == stored[rows]).all()
    assert (stored == stored.T).all()


def test_a_slab_is_looked_at_when_its_value_is_asked_for():
    """A slab is read only when its value is needed.

    A slab's values, such as the pieces of a block, must not stay in memory beside the result.
    """
    seen = []
    values = Tiles.of(gram.infinite, several_outputs().x).of_slabs(lambda slab: seen.append(slab.shape))
    assert not seen
    for done, _ in enumerate(values, start=1):
        assert len(seen) == done
    assert seen == [(12, 12), (12, 24), (12, 36), (1, 37)]


@settings(max_examples=15)
@given(
    n=st.integers(2, 30), d=st.integers(2, 6), seed=st.integers(0, 99), dtype=st.sampled_from(["float64", "float32"])
)
def test_compiled_tiles_are_within_their_error_at_every_angle(n, d, seed, dtype):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-3, 3, (n, 1))
    near = x[: n // 2] * rng.choice([-3.0, 1.0], (n // 2, 1))
    x = np.concatenate([x, near * (1 + 10.0 ** -rng.uniform(0, 9, (n // 2, 1)) * rng.standard_normal((n // 2, d)))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limit, "TILED", 0)
        patch.setattr(tiles, "SLAB", 12)
        patch.setattr(tiles, "TILE", 4)
        compiled = Tiles.of(gram.infinite, x, dtype)
    exact, stored = gram.infinite_estimate(x), np.asarray(compiled)
    allowed = (
        compiled.rounding * np.abs(exact.value) + np.outer(compiled.of_kernel, compiled.of_kernel) + exact.error + 2e-45
    )
    assert (np.abs(stored - exact.value) <= 1.0001 * allowed).all() and (stored == stored.T).all()
    assert np.linalg.norm(stored - exact.value) <= compiled.error + np.linalg.norm(exact.error)


def test_a_product_does_not_depend_on_the_threads():
    x, v = (np.random.default_rng(seed).standard_normal((90, k)) for seed, k in ((0, 5), (1, 3)))
    for dtype in ("float64", "float32"):
        whole = Tiles.of(gram.infinite, x, dtype)
        assert len(whole.slabs) > 4
        with threadpool_limits(1):
            alone = whole @ v
        with threadpool_limits(3):
            assert np.array_equal(whole @ v, alone)


@pytest.mark.parametrize(("what", "threads"), [("product", 1), ("product", 2), ("build", 1), ("build", 2)])
def test_an_interrupt_is_answered_within_a_tile(what, threads, monkeypatch):
    """An interrupt is answered within one tile.

    Ctrl-C arrives while a thread is at its third tile; the product and the build have hundreds.
    """
    done, main, whole, one_pass = [], threading.main_thread().ident, tiles._tiles_of_slab, limit.entries()

    def at_a_tile():
        done.append(1)
        if len(done) == 3:
            signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.02)

    def by_tile(slab):
        for tile in whole(slab):
            at_a_tile()
            yield tile

    def compiled(*arguments):
        at_a_tile()
        return one_pass(*arguments)

    monkeypatch.setattr(limit, "TILED", 0)
    monkeypatch.setattr(limit, "TILE", 4)
    monkeypatch.setattr(tiles, "SLAB", 44)
    x = np.random.default_rng(0).standard_normal((90, 5))
    held = Tiles.of(gram.infinite, x)
    monkeypatch.setattr(tiles, "_tiles_of_slab", by_tile)
    monkeypatch.setattr(limit, "entries", lambda: compiled)
    # A shell starts background jobs with SIGINT ignored, so the handler is set.
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with threadpool_limits(threads), pytest.raises(KeyboardInterrupt):
            _ = held @ x if what == "product" else limit.infinite(x)
    finally:
        signal.signal(signal.SIGINT, ours)
    assert len(done) < 50
    time.sleep(0.1)
    assert len(done) < 50  # Every thread has stopped.


NO_BOUND = "no error bound is proved for this method with tiles"
NO_RATE = "is not found without a matrix; take matrix_free=False and fewer samples"
NOT_STABLE = "goes to 0 is not resolved: its rounds have no symmetric map"
ROUNDS = [0, 1, 6]
POINTS = np.random.default_rng(1).standard_normal((5, 4))
QUESTIONS = {  # The numbers are the multiples of `close` by which an answer may differ from the whole matrix's answer.
    "outputs": (lambda regime: regime.outputs(ROUNDS), 1),
    "residual": (lambda regime: regime.residual(ROUNDS), 1),
    "predict": (lambda regime: regime.predict(POINTS, ROUNDS), 10),
    # The movement is the root of a sum over tiles, so its error is larger.
    "movement": (lambda regime: regime.movement(ROUNDS), 100),
    "eta_local": (lambda regime: regime.step_limits.eta_local, 1),
    "rounds_to": (lambda regime: regime.rounds_to(0.7), 0),
}


def refusals(method, options, how):
    """Returns the questions that have no answer without a matrix, each with the reason that the message must state."""
    remember = method in ("scaffold", "feddyn", "cyclic") or "momentum" in how
    reasons = {"rate_estimate": NO_RATE, "stable": NOT_STABLE} if remember else {}
    uneven = method == "scaffold" and ("client_steps" in how or options.get("option") == "I")
    if "momentum" in how or uneven:
        reasons |= dict.fromkeys(("residual_estimate", "predict_estimate", "movement_estimate"), NO_BOUND)
    return reasons


PRECISIONS = {"float64": 1e-12, "float32": 1e-6}


@pytest.mark.quick_rows(2)
@EACH
@quietly
@pytest.mark.parametrize(
    "how", [{}, {"client_steps": [1, 2, 3, 5]}, {"step_factors": [1, 0.7, 0.5]}, {"momentum": 0.4}], ids=str
)
def test_every_method_answers_every_question_as_with_the_matrix_or_says_why_not(method, options, how):
    """Every method answers every question as with the matrix, or says why not.

    Some clients have one sample, others more than half of all samples.
    """
    problem, setup = several_outputs(), Setup(eta_local=0.03, local_steps=3)
    problem, given = (replace(problem, y=problem.y[:, 0]) if how else problem), (setup, None, method, options)
    whole = kernel_regime(problem, *given, **how)
    answers = {name: ask(whole) for name, (ask, _) in QUESTIONS.items()}
    estimates = {
        "rate_estimate": (lambda own: own.rate_estimate, whole.rate),
        "residual_estimate": (lambda own: own.residual_estimate(ROUNDS), whole.residual(ROUNDS)),
        "predict_estimate": (lambda own: own.predict_estimate(POINTS, ROUNDS), whole.predict(POINTS, ROUNDS)),
        "movement_estimate": (lambda own: own.movement_estimate(ROUNDS), whole.movement(ROUNDS)),
        "stable": (lambda own: Estimate(float(own.stable), 0.0), whole.stable),
    }
    refused = refusals(method, options, how)
    for dtype, close in PRECISIONS.items():
        regime = kernel_regime(problem, *given, **how, matrix_free=dtype)
        assert isinstance(regime, MatrixFreeRegime) and regime.tiles.dtype == dtype
        for name, (ask, factor) in QUESTIONS.items():
            expected, answer = answers[name], ask(regime)
            assert np.shape(answer) == np.shape(expected), name
            atol = factor * close * np.abs(expected).max()
            np.testing.assert_allclose(answer, expected, rtol=0, atol=atol, err_msg=name)
        for name, (estimated, exact) in estimates.items():
            if name in refused:
                with pytest.raises(ValueError, match=refused[name]):
                    estimated(regime)
            else:
                estimate, error = estimated(regime), 1e-12
                assert (estimate.lo - error <= exact).all() and (exact <= estimate.hi + error).all(), name
        if "rate_estimate" in refused:
            assert np.isnan(regime.rate) and np.isnan(regime.step_limits.eta_global)
        else:
            limits = regime.step_limits.eta_global, whole.step_limits.eta_global
            assert regime.rate == pytest.approx(whole.rate, rel=close)
            np.testing.assert_allclose(*limits, rtol=100 * close)


SCHEDULES = {"eta_local": [0.03, 0.02, 0.02, 0.04], "local_steps": [3, 1, 2]}


@pytest.mark.quick_rows(2)
@EACH
@quietly
def test_schedules_answer_every_question_as_with_the_matrix(method, options):
    """Schedules answer every question as with the matrix.

    Rounds take the steps of the schedule. The rate, the limits and whether rounds grow follow from the last steps.
    """
    problem, t = several_outputs(), [0, 1, 2, 3, 4, 9, 400]
    given = problem, Setup(eta_local=0.01, local_steps=3), None, method, options
    whole = kernel_regime(*given, **SCHEDULES)
    questions = {**QUESTIONS, "late": (lambda own: own.residual(t), 1)}
    answers = {name: ask(whole) for name, (ask, _) in questions.items()}
    settled = problem, Setup(eta_local=0.04, local_steps=2), None, method, options
    assert whole.rate == pytest.approx(kernel_regime(*settled).rate, rel=1e-12)
    drawn = method in ("fl-ntk", "fedavg", "fedprox", "fedavgm", "fednova")
    for dtype, close in PRECISIONS.items():
        regime = kernel_regime(*given, **SCHEDULES, matrix_free=dtype)
        for name, (ask, factor) in questions.items():
            atol = factor * close * np.abs(answers[name]).max()
            np.testing.assert_allclose(ask(regime), answers[name], rtol=0, atol=atol, err_msg=name)
        last = kernel_regime(*settled, matrix_free=dtype)
        assert np.array_equal([regime.rate, *regime.step_limits], [last.rate, *last.step_limits], equal_nan=True)
        for estimated in (lambda own: own.left_estimate(9), lambda own: own.rounds_between(0.5)):
            with pytest.raises(
                ValueError, match="is not found by quadrature" if drawn else "no error bound|by quadrature"
            ):
                estimated(regime)


@quietly
def test_many_rounds_after_a_schedule_take_few_products(monkeypatch):
    problem, calls = several_outputs(), []
    regime = kernel_regime(problem, STEPS, None, "fedavg", eta_local=[0.2, 0.1, 0.3], matrix_free=True)
    product = Tiles.__matmul__
    monkeypatch.setattr(Tiles, "__matmul__", lambda self, v: calls.append(0) or product(self, v))
    residual = regime.residual([1, 2, 3, 2000])
    assert len(calls) < 500
    after = kernel_regime(problem, STEPS, None, "fedavg", matrix_free=True)
    np.testing.assert_allclose(after.residual([1, 1998], problem.y - residual[1]), residual[2:], atol=1e-12)


@quietly
def test_schedules_that_have_no_rounds_are_refused():
    problem = several_outputs()
    for how, said in (
        ({"eta_local": []}, r"eta_local is \[\]; a schedule is a sequence of at least one step"),
        ({"eta_local": 0.1}, r"eta_local is 0\.1; a schedule is a sequence"),
        ({"eta_local": [0.1, -1]}, r"eta_local is -1"),
        ({"local_steps": [2, 0]}, r"local_steps is 0"),
        ({"local_steps": [2, 1.5]}, r"local_steps is 1\.5"),
        ({"local_steps": [2], "client_steps": [1, 2, 3, 4]}, "local_steps is a schedule and client_steps are given"),
        ({"eta_global": [2, 1], "options": {"server_rate": 2}}, "eta_global is a schedule and server_rate 2"),
        ({"eta_global": [2, 1], "method": "feddyn"}, "has no server_rate"),
        ({"eta_local": [0.1, 0.2], "ima": MovingWindow(2), "matrix_free": False}, "a moving window needs equal rounds"),
        ({"eta_local": [0.1, 0.2], "loss": "squares"}, "leave out method, options, .* ima and schedules"),
        ({"eta_local": [0.1, 0.2], "method": "fedavgm", "momentum": 0.5}, "coordinates that depend on the steps"),
    ):
        with pytest.raises(ValueError, match=said):
            kernel_regime(problem, STEPS, **({"matrix_free": True} | how))


def test_the_mean_of_drawn_clients_is_that_of_random_rounds():
    problem = several_outputs()
    whole = random_rounds(problem, STEPS, None, "fedavg", {"server_rate": 1.2}, participation=0.5).mean
    base = KernelRegime(problem, STEPS, Tiles.of(gram.infinite, problem.x))
    regime = of_method(base, "fedavg", {"server_rate": 1.2}, cohort=2)
    np.testing.assert_allclose(regime.residual([1, 9]), whole.residual([1, 9]), atol=1e-12)


@quietly
def test_another_loss_runs_as_with_the_matrix():
    problem, setup = ragged([3, 8, 2, 9]), Setup(eta_local=0.3, eta_global=0.9, local_steps=2)
    problem = replace(problem, y=np.sign(problem.y))
    whole, tiled = (kernel_regime(problem, setup, loss="logistic", matrix_free=free) for free in (False, "float32"))
    np.testing.assert_allclose(tiled.outputs([0, 1, 9]), whole.outputs([0, 1, 9]), atol=1e-6)
    np.testing.assert_allclose(tiled.predict(problem.x[:3], 9), whole.predict(problem.x[:3], 9), atol=1e-6)
    assert tiled.total_loss(9) == pytest.approx(whole.total_loss(9), rel=1e-6)
    assert tiled.eta_limit == pytest.approx(whole.eta_limit, rel=1e-6)


def test_algorithm_1_takes_its_server_step():
    problem, setup = ragged([3, 8, 2]), Setup(eta_local=0.3, eta_global=1.7, local_steps=2)
    whole, free_regime = (kernel_regime(problem, setup, matrix_free=free) for free in (False, True))
    np.testing.assert_allclose(free_regime.residual(9), whole.residual(9), atol=1e-12)
    assert free_regime.step_limits.eta_global == pytest.approx(whole.step_limits.eta_global)


@EACH
@quietly
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("searched", [False, True])
def test_the_outermost_eigenvalues_are_in_their_intervals(method, options, repeated, searched, monkeypatch):
    for module in ("matrix_free", "lanczos"):
        monkeypatch.setattr(f"ntkfl.limit.{module}.WHOLE", 0 if searched else 500)
    problem = ragged([6, 9, 14], seed=3, repeated=repeated)
    whole = kernel_regime(problem, STEPS, None, method, options)
    regime = kernel_regime(problem, STEPS, None, method, options, matrix_free=True)
    if regime.outermost is None:
        assert np.isnan(regime.rate)
        with pytest.raises(ValueError, match="not resolved"):
            _ = regime.stable
        return
    (smallest, largest), eigenvalues = regime.outermost, whole.response_eigenvalues
    assert smallest.lo - 1e-12 <= eigenvalues[0] <= smallest.hi and largest.lo <= eigenvalues[-1] <= largest.hi
    assert regime.rate_estimate.lo <= whole.rate <= regime.rate_estimate.hi + 1e-12
    if repeated:
        assert smallest.lo <= 0 and np.isnan(regime.rate)
    else:
        assert regime.stable and regime.rate == pytest.approx(whole.rate, rel=1e-6)


@pytest.mark.parametrize("rate", [1.0, 1.8])
def test_many_rounds_take_few_products(rate, monkeypatch):
    monkeypatch.setattr(tiles, "SLAB", 40)
    monkeypatch.setattr(tiles, "TILE", 20)
    problem, t, calls = several_outputs(), [0, 300, 2000], []
    options = {"server_rate": rate}
    whole = kernel_regime(problem, STEPS, None, "fedavg", options)
    regime = kernel_regime(problem, STEPS, None, "fedavg", options, matrix_free=True)
    product = Tiles.__matmul__
    monkeypatch.setattr(Tiles, "__matmul__", lambda self, v: calls.append(0) or product(self, v))
    np.testing.assert_allclose(regime.residual(t), whole.residual(t), atol=1e-11)
    assert len(calls) < 500
    np.testing.assert_allclose(regime.predict(problem.x[:4], t), whole.predict(problem.x[:4], t), atol=1e-10)
    np.testing.assert_allclose(regime.movement(t), whole.movement(t), rtol=1e-10)
    estimate = regime.residual_estimate(t)
    assert (np.abs(estimate.value - whole.residual(t)) <= estimate.error).all() and estimate.error.max() < 1e-6


def left_exactly(whole, rounds):
    """Returns (r(t)' P r(t))^(1/2), summed over the outputs and relative to round 0, computed with the whole matrix."""
    basis = np.sqrt(whole.round.response)
    sizes = np.array(
        [np.linalg.norm(whole._clients.apply(basis, r.reshape(len(r), -1))) for r in whole.residual(rounds)]
    )
    return sizes / np.linalg.norm(whole._clients.apply(basis, whole._labels))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rate", [1.0, 2.2])
def test_what_is_left_is_enclosed_without_a_round(dtype, rate, monkeypatch):
    monkeypatch.setattr(tiles, "SLAB", 512)
    monkeypatch.setattr(tiles, "TILE", 256)
    problem, setup = ragged([60, 90, 100, 50], d=6, seed=2), Setup(eta_local=0.05, local_steps=3)
    t, options = [0, 1, 10, 100, 1000], {"server_rate": rate}
    whole, tiled = (kernel_regime(problem, setup, None, "fedavg", options, matrix_free=free) for free in (False, dtype))
    exact, estimate = left_exactly(whole, t), tiled.left_estimate(t)
    assert (estimate.lo <= exact).all() and (exact <= estimate.hi).all() and estimate.rigour == Rigour.ENCLOSED
    assert estimate.error[:4].max() < (1e-6 if dtype == "float64" else 1e-3)
    wide = tiled.left_estimate(t, products=4)
    assert (wide.lo <= exact).all() and (exact <= wide.hi).all() and (wide.error[3:] > estimate.error[3:]).any()
    for eps, loose in ((0.9, 1e3), (0.3, 2), (2.0, 1)):
        soonest, latest = tiled.rounds_between(eps)
        assert soonest <= whole.rounds_to(eps) <= latest <= loose * max(1, soonest)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("repeated", [False, True])
def test_of_many_label_columns_all_eigenvectors_are_taken_at_once(dtype, repeated, monkeypatch):
    """For many columns of labels all eigenvectors are computed at once.

    The interval takes two products with n columns. This interval lies within the interval that takes twelve products
    for each column.
    """
    problem, asked, multiply = ragged([6, 9, 14, 30], seed=4, repeated=repeated), [], Tiles.__matmul__
    problem, t = replace(problem, y=np.eye(problem.n)[:, ::2]), [1, 10, 100]
    whole, tiled = (kernel_regime(problem, STEPS, None, "fedavg", matrix_free=free) for free in (False, dtype))
    exact = left_exactly(whole, t)
    monkeypatch.setattr(Tiles, "__matmul__", lambda self, v: asked.append(v.shape[1]) or multiply(self, v))
    at_once = tiled.left_estimate(t)
    assert asked == [problem.n] * 2  # One product finds the eigenvectors, the other gives their residuals.
    # Both calls reuse the quadrature of the first estimate, without a further product.
    assert tiled.rounds_between(0.5) and tiled.left_estimate([2]).error < 1 and len(asked) == 2
    assert tiled.left_estimate([2], products=59).error < 1 and len(asked) == 4
    monkeypatch.setattr("ntkfl.limit.lanczos.BLOCK", 20)
    by_blocks = kernel_regime(problem, STEPS, None, "fedavg", matrix_free=dtype).left_estimate(t)
    assert asked[4:] == [20, 20, 19] * 2
    assert by_blocks.lo == pytest.approx(at_once.lo, rel=1e-6) and by_blocks.hi == pytest.approx(at_once.hi, rel=1e-6)
    monkeypatch.setattr("ntkfl.limit.matrix_free.MANY", np.inf)
    by_column = tiled.left_estimate(t, products=12)
    for estimate in (at_once, by_column):
        assert (estimate.lo <= exact).all() and (exact <= estimate.hi).all()
    assert (at_once.error <= 1.001 * by_column.error + 1e-8).all()


def test_all_eigenvectors_take_no_more_memory_than_is_asked_for(monkeypatch):
    """Computing all eigenvectors takes no more memory than is asked for.

    The computation once took the memory of six matrices. Two matrices and some columns are enough.
    """
    n, asked = 400, []
    monkeypatch.setattr(lanczos, "BLOCK", 40)
    monkeypatch.setattr(lanczos, "require", lambda what, needs, **sizes: asked.append(needs(**sizes)))
    root = np.random.default_rng(0).standard_normal((n, n))
    matrix, starts = root @ root.T, root[:, :5]
    tracemalloc.start()
    whole = lanczos.WholeSpectrum.of(lambda v: matrix @ v, starts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= asked[0] < 8 * 3 * n * n
    values, vectors = np.linalg.eigh(matrix)
    assert whole.diagonal == pytest.approx(values, abs=1e-10) and whole.residual < 1e-9 and whole.skew < 1e-9
    assert whole.weights == pytest.approx(((vectors.T @ starts) ** 2).sum(axis=1) / np.vdot(starts, starts), abs=1e-9)


def unit_rows(n):
    rows = 3 + np.random.default_rng(0).standard_normal((n, 3))  # The kernel of these rows has only positive entries.
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("whole", [False, True])
def test_products_that_are_all_off_in_one_direction_leave_the_exact_share_enclosed(whole, monkeypatch):
    """If all products are off in one direction, the exact share is still enclosed.

    Each column of a product with n orthonormal columns has the same error. The error of the whole product is therefore
    n^(1/2) times as large as the error of one column.
    """
    n, multiply, rounding = 200, Tiles.__matmul__, 1e-4
    problem, setup = Problem(unit_rows(n), np.ones(n), np.arange(n)), Setup(eta_local=0.01, local_steps=1)
    regime = kernel_regime(problem, setup, None, "fedavg")
    exact, largest = left_exactly(regime, [1, 3]), np.linalg.eigvalsh(regime.gram)[-1]
    monkeypatch.setattr("ntkfl.limit.matrix_free.MANY", 0 if whole else np.inf)
    monkeypatch.setattr(Tiles, "product_rounding", rounding)
    monkeypatch.setattr(
        Tiles, "__matmul__", lambda self, v: multiply(self, v) - rounding * np.linalg.norm(v, axis=0) / np.sqrt(n)
    )
    tiled = kernel_regime(problem, setup, None, "fedavg", matrix_free="float64")
    estimate = tiled.left_estimate([1, 3])
    assert largest <= tiled._largest(np.ones(n)) <= largest + 2 * np.sqrt(n) * rounding
    assert (estimate.lo <= exact).all() and (exact <= estimate.hi).all()


@settings(max_examples=10)
@given(seed=st.integers(0, 99), repeated=st.booleans(), products=st.integers(1, 30))
def test_few_samples_are_exhausted_by_few_products(seed, repeated, products):
    problem, t = ragged([1, 2, 5], seed=seed, repeated=repeated), [0, 3, 40, 2**40]
    whole, tiled = (kernel_regime(problem, STEPS, None, "fedavg", matrix_free=free) for free in (False, True))
    estimate, exact = tiled.left_estimate(t, products=products), left_exactly(whole, t[:3])
    assert (estimate.lo[:3] <= exact).all() and (exact <= estimate.hi[:3]).all()
    assert -1e-12 <= estimate.lo[3] <= estimate.hi[3] <= 1 + 1e-12
    if products >= problem.n:
        assert estimate.error[:3].max() < 1e-6


@quietly
@pytest.mark.parametrize(
    ("method", "call", "said"),
    [
        ("scaffold", lambda regime: regime.left_estimate(3), "which is for plain averaging"),
        ("fedavg", lambda regime: regime.left_estimate(3, products=0), "products is 0"),
        ("fedavg", lambda regime: regime.left_estimate(3, regime.problem.y), "initial residual is 0"),
        ("fedavg", lambda regime: regime.rounds_between(-1.0), "it must be positive"),
    ],
)
def test_quadrature_says_what_it_is_not_for(method, call, said):
    regime = kernel_regime(ragged([3, 5]), STEPS, None, method, matrix_free=True)
    with pytest.raises(ValueError, match=said):
        call(regime)


@pytest.mark.parametrize(("method", "options"), [("cyclic", {}), ("scaffold", {"option": "I"})])
def test_a_run_that_leaves_float64_says_with_which_steps_and_which_would_do(method, options):
    """If a run's numbers exceed float64, the message names the run's steps and the limit of stable steps.

    The methods here have no warning before a run.
    """
    setup = Setup(eta_local=3.0, local_steps=1)
    regime = kernel_regime(data.sphere(20, 6, seed=0), setup, method=method, options=options, matrix_free=True)
    said = f"{method} grows at eta_local = 3 with 1 local steps; with eta_local < {regime.step_limits.eta_local:.6g}"
    with pytest.raises(OverflowError, match=said):
        regime.residual(3000)


def test_steps_beyond_the_limit_are_warned_of():
    problem = ragged([4, 9, 5])
    limit = kernel_regime(problem, STEPS, None, "fedavg", {"server_rate": 1.0}).step_limits.eta_global
    kernel_regime(problem, STEPS, None, "fedavg", {"server_rate": 0.99 * limit}, matrix_free=True)
    with pytest.warns(UnstableSteps, match="stable for a server rate below"):
        beyond = kernel_regime(problem, STEPS, None, "fedavg", {"server_rate": 1.01 * limit}, matrix_free=True)
    assert not beyond.stable
    with pytest.raises(ValueError, match="no number of rounds"):
        beyond.rounds_to(0.1)
    with pytest.warns(UnstableSteps, match="the clients' steps contract"):
        kernel_regime(problem, Setup(eta_local=9.0, local_steps=2), None, "fedavg", matrix_free=True)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("feddyn", {"alpha": 0.5}),
        pytest.param("scaffold", {}, marks=pytest.mark.slow),
        pytest.param("cyclic", {}, marks=pytest.mark.slow),
    ],
)
@quietly
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_methods_that_remember_say_that_they_grow_and_the_step_that_would_do(method, options):
    regime = kernel_regime(
        ragged([4, 9, 5]), Setup(eta_local=9.0, local_steps=3), None, method, options, matrix_free=True
    )
    below = f"{regime.step_limits.eta_local:.6g}"
    with pytest.raises(
        OverflowError,
        match=rf"{method} grows at eta_local = 9 .*; with eta_local < {below} the clients' steps contract",
    ):
        regime.outputs(3000)
    said = r"the residual norm passes the largest float64 in round \d+; try smaller steps"
    if method != "cyclic":  # Whether cyclic training grows is not known before the run.
        said = f"no number of rounds brings every residual to 0.1 of its start: {method} .*; with eta_local < {below}"
    with pytest.raises(ValueError, match=said):
        regime.rounds_to(0.1)


@quietly
@pytest.mark.parametrize("eta", [1e9, 1e20, 1e50])
def test_steps_so_long_that_rounding_takes_the_limit_are_said_without_one(eta):
    """If steps are so long that rounding hides the limit, no limit is stated.

    Messages once named a limit below 0, or an infinite limit.
    """
    regime = kernel_regime(ragged([4, 9, 5]), Setup(eta_local=eta), None, "fedavg", matrix_free=True)
    named = re.search(r"a server rate below (\S+) only", regime.step_warning)
    whole = kernel_regime(ragged([4, 9, 5]), Setup(eta_local=eta), None, "fedavg").step_limits.eta_global
    assert float(named[1]) == pytest.approx(whole, rel=1e-5) if named else "may be unstable" in regime.step_warning


@quietly
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("sizes", [[6, 3, 9, 4], [10, 2, 30]])
def test_scaffold_and_feddyn_say_that_they_grow_exactly_where_they_do(sizes, steps):
    """SCAFFOLD and FedDyn say that they grow exactly if they do.

    The spectral radius of the whole matrix decides, on both sides of the largest rate and of the smallest alpha.
    """
    problem = ragged(sizes, d=6)
    eta = kernel_regime(problem, Setup()).step_limits.eta_local
    setup = Setup(eta_local=eta / 2, local_steps=steps)
    limit = kernel_regime(problem, setup, None, "scaffold").step_limits.eta_global
    for share, grows in ((0.999, False), (1.001, True)):
        regime = kernel_regime(problem, setup, None, "scaffold", {"server_rate": share * limit}, matrix_free=True)
        assert bool(regime.step_warning) == grows
        if grows:
            named = re.search(r"a server rate below ([\d.]+) at most", regime.step_warning)
            assert limit * 0.999 <= float(named[1]) <= 1.0001 * share * limit and not regime.stable
    for share in (0.5, 0.97, 1.05, 1.4, 3.0):
        own = replace(setup, eta_local=share * eta)
        for method, options in (("scaffold", {}), ("feddyn", {"alpha": 0.05}), ("feddyn", {"alpha": 2.0})):
            whole = kernel_regime(problem, own, None, method, options)
            warning = kernel_regime(problem, own, None, method, options, matrix_free=True).step_warning
            if abs(whole.rate - 1) > 1e-6 and "may be" not in (warning or ""):
                assert bool(warning) == (whole.rate > 1), (share, method, options, whole.rate, warning)


def test_duplicates_and_parallel_samples_are_allowed_and_samples_that_fit_no_memory_are_offered_the_disk(monkeypatch):
    problem = ragged([6, 4, 10])
    x = np.concatenate([problem.x[:10], 2.5 * problem.x[:9], -problem.x[:1]])
    problem = replace(problem, x=x)
    whole, regime = (kernel_regime(problem, STEPS, method="fedavg", matrix_free=free) for free in (False, True))
    estimate = regime.residual_estimate(9)
    assert (np.abs(estimate.value - whole.residual(9)) <= estimate.error + 1e-13).all() and estimate.error.max() < 1e-9
    assert regime.outermost[0].lo <= 0 and np.isnan(regime.rate)
    monkeypatch.setattr(memory, "NEGLIGIBLE", 0)
    monkeypatch.setattr(memory, "available", lambda: 5000.0)
    with pytest.raises(memory.TooLittleMemory, match=r"n up to \d+ would fit; memmap=FILE keeps the tiles on the disk"):
        kernel_regime(problem, STEPS, matrix_free="float32")


def test_more_than_a_thousand_label_columns_are_as_with_the_matrix():
    problem = ragged([5, 7])
    problem = replace(problem, y=np.random.default_rng(0).uniform(-1, 1, (problem.n, 1200)))
    whole, regime = (kernel_regime(problem, STEPS, method="fedavg", matrix_free=free) for free in (False, True))
    estimate = regime.residual_estimate(9)
    assert (np.abs(estimate.value - whole.residual(9)) <= estimate.error + 1e-13).all() and estimate.error.max() < 1e-9


def skew(x, z):
    return np.outer(x[:, 0], np.ones(len(x if z is None else z))) + 9


def skew_in_the_middle(where):
    """Returns a kernel whose entry of sample 8 with 9, or with 2, differs from its mirror image."""

    def kernel(x, z):
        z = x if z is None else z
        odd = [(rows[:, None] == ragged([4, 9, 5]).x[at]).all(axis=2)[:, 0] for rows, at in ((x, 8), (z, where))]
        return x @ z.T + 0.1 * np.outer(*odd)

    return kernel


def too_large(x, z):
    return np.exp((x @ (x if z is None else z).T) ** 2) - 2 * np.eye(len(x), len(x if z is None else z))


@pytest.mark.parametrize(
    ("kernel", "how", "more", "said"),
    [
        (None, "yes", {}, "matrix_free is 'yes'; it is False, True, 'auto'"),
        (np.eye(18), True, {}, "a matrix for gram"),
        (None, True, {"loss": "logistic", "momentum": 0.5}, "only Algorithm 1 without changes takes a loss"),
        (None, True, {"method": "fedavg", "ima": MovingWindow(2)}, "a moving window"),
        (skew, True, {}, "is not symmetric: entries differ from their mirror images"),
        (skew_in_the_middle(9), True, {}, "is not symmetric"),
        (skew_in_the_middle(13), True, {}, "is not symmetric"),
        (too_large, True, {}, "it is not positive semi-definite"),
        (lambda x, z: np.eye(3), True, {}, r"has shape \(3, 3\); it must be \(18, 18\)"),
        (lambda x, z: np.full((len(x), len(x if z is None else z)), np.nan), True, {}, "every entry must be finite"),
        (lambda x, z: x @ (x if z is None else z).T + 0.1j, True, {}, "kernel is complex"),
    ],
)
def test_bad_input_is_said(kernel, how, more, said):
    with pytest.raises(ValueError, match=said):
        kernel_regime(ragged([4, 9, 5]), STEPS, kernel, **more, matrix_free=how)


def unasked(x, z):
    raise AssertionError("the kernel is computed")


@pytest.mark.parametrize("how", [False, "auto", True])
@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"method": "fedadam"}, "no exact linear limit"),
        ({"method": "fednova", "options": {"nu": 1.0}}, "no option 'nu'"),
        ({"method": "fedavg", "momentum": 1.5}, "momentum is 1.5"),
        ({"method": "fedavg", "client_steps": [1, 2]}, "for each of 3 clients"),
        ({"loss": "foo"}, "there is no loss 'foo'"),
        ({"loss": "logistic"}, "the labels run from"),
        ({"loss": "squares", "momentum": 0.5}, "only Algorithm 1 without changes takes a loss"),
        ({"eta_local": [0.1], "ima": MovingWindow(2)}, "a moving window needs equal rounds"),
    ],
)
def test_wrong_methods_options_and_losses_are_refused_before_the_kernel(how, request_, said):
    with pytest.raises(ValueError, match=said):
        kernel_regime(ragged([4, 9, 5]), STEPS, unasked, **request_, matrix_free=how)


@pytest.mark.parametrize("how", [False, True])
def test_a_round_without_a_formula_is_refused_before_the_kernel_if_its_matrix_does_not_fit(how, monkeypatch):
    """A round without a formula is refused before the kernel is computed if the round's matrix does not fit.

    SCAFFOLD's state has the model, the server's control variate and the control variates of the four clients. Together
    with the labels these are seven vectors of n entries.
    """
    needed = 64 * (18 * 7) ** 2
    monkeypatch.setattr(memory, "NEGLIGIBLE", 0)
    monkeypatch.setattr(memory, "available", lambda: needed - 1.0)
    with pytest.raises(
        memory.TooLittleMemory, match=r"the matrix of scaffold's round.* 1.02 MB.* n up to 17 would fit"
    ):
        kernel_regime(ragged([4, 5, 4, 5]), STEPS, unasked, "scaffold", momentum=0.5, matrix_free=how)
    monkeypatch.setattr(memory, "available", lambda: 4.0 * needed)
    with pytest.raises(AssertionError, match="the kernel is computed"):
        kernel_regime(ragged([4, 5, 4, 5]), STEPS, unasked, "scaffold", momentum=0.5, matrix_free=how)


def test_tiles_that_do_not_fit_are_refused_before_the_work(monkeypatch):
    problem = ragged([40, 70])
    needed = tiles.tiles_bytes(problem.n, "float64")
    monkeypatch.setattr(memory, "NEGLIGIBLE", 0)
    monkeypatch.setattr(memory, "available", lambda: needed)
    with pytest.raises(memory.TooLittleMemory, match=r"float64 tiles takes .* n up to .* matrix_free='float32'"):
        kernel_regime(problem, STEPS, matrix_free="float64")


@pytest.mark.parametrize("kernel", [gram.infinite, gram.deep])
@pytest.mark.parametrize(
    ("factor", "dtype", "said"),
    [
        (1e20, "float32", r"float32 tiles take up to 3\.4e\+38; take float64 tiles, or divide the samples by a number"),
        (1e150, "float32", r"float32 tiles take up to 3\.4e\+38; divide the samples by a number"),
        (1e150, "float64", r"float64 tiles take up to 1\.77e\+72; divide the samples by a number"),
    ],
)
def test_entries_that_tiles_or_their_error_bounds_do_not_hold_are_refused(kernel, factor, dtype, said):
    problem = ragged([3, 5])
    large = replace(problem, x=problem.x * factor)
    with pytest.raises(ValueError, match=rf"the samples are too large: the kernel has entries up to .*, and {said}"):
        kernel_regime(large, STEPS, kernel, matrix_free=dtype)


@pytest.mark.parametrize("kernel", [gram.infinite, gram.deep])
def test_samples_so_small_that_error_bounds_underflow_are_refused(kernel):
    small = replace(problem := ragged([3, 5]), x=problem.x * 1e-60)
    with pytest.raises(
        ValueError, match=r"the samples are too small: .* float64 tiles need one of 5\.66e-73; multiply"
    ):
        kernel_regime(small, STEPS, kernel, matrix_free="float64")


@pytest.mark.parametrize("power", [-100, 118])
def test_an_error_bound_does_not_depend_on_the_unit_of_the_samples(power):
    problem, factor = ragged([3, 5, 4]), 2.0**power
    bounds = [
        kernel_regime(
            replace(problem, x=problem.x * unit),
            Setup(eta_local=0.05 / unit**2, local_steps=3),
            None,
            "scaffold",
            matrix_free="float64",
        )
        .residual_estimate(9)
        .error
        for unit in (1.0, factor)
    ]
    assert bounds[0].max() < 1e-8
    np.testing.assert_allclose(bounds[1], bounds[0], rtol=1e-9)


def test_auto_is_the_matrix_where_that_fits(monkeypatch):
    problem = ragged([3, 5])
    assert not isinstance(kernel_regime(problem, STEPS, matrix_free="auto"), MatrixFreeRegime)
    monkeypatch.setattr("ntkfl.limit.matrix_free.left_for", lambda needed: 0.0)
    regime = kernel_regime(problem, STEPS, matrix_free="auto")
    assert isinstance(regime, MatrixFreeRegime) and regime.tiles.dtype == "float32"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kernel", [gram.infinite, gram.deep])
def test_tiles_in_a_file_are_those_in_memory_and_go_on_after_a_kill(tmp_path, kernel, dtype):
    x, v = (np.random.default_rng(seed).standard_normal((50, k)) for seed, k in ((0, 5), (1, 3)))
    inside, file, calls = Tiles.of(kernel, x, dtype), tmp_path / "tiles.bin", []

    def killed(*rows):
        calls.append(len(rows[0]))
        if len(calls) > 7:
            raise KeyboardInterrupt
        return kernel(*rows)

    with pytest.raises(KeyboardInterrupt):
        Tiles.of(killed, x, dtype, file)
    before = file.read_bytes()
    assert 0 < before[len(tiles.MAGIC) + 32] < len(inside.slabs)  # The file has only whole slabs.
    outside = Tiles.of(kernel, x, dtype, file)
    assert all(np.array_equal(a, b) for a, b in zip(inside.slabs, outside.slabs, strict=True))
    assert np.array_equal(inside @ v, outside @ v) and outside.dtype == dtype
    again = Tiles.of(kernel, x, dtype, file)
    assert np.array_equal(again @ v, inside @ v) and list(tmp_path.iterdir()) == [file]


def test_tiles_that_memory_does_not_hold_are_in_a_file(tmp_path, monkeypatch):
    x, v = (np.random.default_rng(seed).standard_normal((200, k)) for seed, k in ((0, 5), (1, 3)))
    product = Tiles.of(gram.infinite, x) @ v
    limit = tiles.tiles_bytes(200, "float64") - 1
    monkeypatch.setattr(memory, "left_for", lambda needed: limit)
    with pytest.raises(memory.TooLittleMemory, match="the tiles of the Gram matrix takes"):
        Tiles.of(gram.infinite, x)
    assert np.array_equal(Tiles.of(gram.infinite, x, memmap=tmp_path / "tiles.bin") @ v, product)


def test_a_file_of_other_tiles_or_without_room_is_refused_before_the_work(tmp_path, monkeypatch):
    problem, file = ragged([40, 70]), tmp_path / "tiles.bin"
    kernel_regime(problem, STEPS, matrix_free=True, memmap=file)
    for other, how in ((ragged([40, 70], seed=5), True), (problem, "float32")):
        with pytest.raises(ValueError, match="has no tiles of these samples, kernel and entries"):
            kernel_regime(other, STEPS, matrix_free=how, memmap=file)
    with pytest.raises(ValueError, match="has no tiles of these"):
        kernel_regime(problem, STEPS, gram.deep, matrix_free=True, memmap=file)
    with pytest.raises(ValueError, match="which is a folder; name a file"):
        kernel_regime(problem, STEPS, matrix_free=True, memmap=str(tmp_path))
    with pytest.raises(ValueError, match="but there is no folder"):
        kernel_regime(problem, STEPS, matrix_free=True, memmap=tmp_path / "no" / "tiles.bin")
    with pytest.raises(ValueError, match=r"with matrix_free = .*; it is for True, 'float64' or 'float32'"):
        kernel_regime(problem, STEPS, memmap=file)
    monkeypatch.setattr(tiles.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    other = tmp_path / "other.bin"

    def read_only(*arguments, **named):
        raise OSError(30, "Read-only file system")

    for free, said in (
        (1000, r"the tiles take .* on the disk of .*, and 1 kB are free$"),
        (file.stat().st_size - 1, r"are free; n up to 109 would fit"),
    ):
        monkeypatch.setattr(tiles.shutil, "disk_usage", lambda folder, free=free: SimpleNamespace(free=free))
        with pytest.raises(ValueError, match=said):
            kernel_regime(problem, STEPS, matrix_free=True, memmap=other)
    with monkeypatch.context() as patched:
        patched.setattr(tiles.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1e9))
        for name in ("open", "unlink"):
            patched.setattr(tiles.Path, name, read_only)
        with pytest.raises(ValueError, match=r"other.bin, and no file of .* can be made there: Read-only file system"):
            kernel_regime(problem, STEPS, matrix_free=True, memmap=other)
    assert list(tmp_path.iterdir()) == [file]
    other.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"other.bin, which is no regular file"):
        kernel_regime(problem, STEPS, matrix_free=True, memmap=other)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_file_of_a_kernel_that_differs_between_near_samples_alone_is_refused(dtype, tmp_path):
    rng, file = np.random.default_rng(0), tmp_path / "tiles.bin"
    x = np.append(rng.uniform(0, 40, 64), [*rng.uniform(0, 100, 300), 90])[:, None]

    def kernel(width):
        return lambda a, b: np.exp(-(((a - (a if b is None else b).T) / width) ** 2))

    for reach in (1.0, 0.1):
        # The rows that are compared to distinguish files are 0 in both kernels.
        assert np.all(kernel(reach)(x[-1:], x[:64]) == 0)
    whole = Tiles.of(kernel(1.0), x, dtype, file)
    assert np.array_equal(np.asarray(Tiles.of(kernel(1.0), x, dtype, file)), np.asarray(whole))
    with pytest.raises(ValueError, match=r"has tiles of another kernel: some entries are off by .*; name another file"):
        Tiles.of(kernel(0.1), x, dtype, file)


@pytest.mark.parametrize("share", [0.5, 1.5, 1.9])
def test_an_eigenvalue_is_in_its_interval_where_rounding_moves_the_clients_response_most(share):
    """An eigenvalue is in its interval even if rounding changes the clients' response most.

    Let q be the eigenvalue of a client's block of H, and u(q) the client's response. At a step near 2 / q two local
    steps almost cancel. An error of q then counts more in u(q) than in H.
    """
    for x in 1 + np.arange(40) / 97:
        problem, q = Problem(np.full((2, 1), x), np.ones(2), np.arange(2)), x * x / 2
        setup = Setup(eta_local=share / q, local_steps=2)
        exact = q * (2 * setup.eta_local - setup.eta_local**2 * q)
        regime = kernel_regime(problem, setup, None, "fl-ntk", matrix_free="float32")
        smallest, largest = regime.outermost
        assert largest.lo <= exact <= largest.hi <= exact * (1 + 1e-4) and smallest.lo <= 0 <= smallest.hi < 1e-4
        assert regime.rate_estimate.lo <= max(1.0, abs(1 - exact)) <= regime.rate_estimate.hi


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("share", [0.1, 0.6, 0.9999999, 1.0])
def test_the_rate_is_in_its_interval_where_all_eigenvalues_are_one(share, dtype):
    """The rate is in its interval even if all eigenvalues are equal.

    Samples are orthogonal, so that H is 2 I. The intervals of the smallest and the largest eigenvalue then overlap.
    """
    problem, setup = Problem(2 * np.eye(6), np.ones(6), np.arange(6)), Setup(eta_local=share / 2, local_steps=2)
    of_client = (1 - (1 - share) ** 2) / 6
    for rate in (1.0, 6.0, 9.0):
        regime = kernel_regime(problem, setup, None, "fedavg", {"server_rate": rate}, matrix_free=dtype)
        estimate, exact = regime.rate_estimate, abs(1 - rate * of_client)
        assert estimate.lo <= exact <= estimate.hi < exact + 1e-5 and estimate.lo > exact - 1e-5
    regime = kernel_regime(problem, setup, None, "fedavgm", {"momentum": 0.3}, matrix_free=dtype)
    exact = np.abs(np.roots([1, -(1.3 - of_client), 0.3])).max()
    assert regime.rate_estimate.lo <= exact <= regime.rate_estimate.hi < exact + 1e-5 < regime.rate_estimate.lo + 2e-3


@pytest.mark.parametrize("kernel", [gram.infinite, gram.deep])
def test_a_file_is_taken_after_a_look_at_few_rows_and_a_row_that_is_looked_at_must_be_the_kernel_s(kernel, tmp_path):
    """A file is accepted after a look at few rows, each of which must be the kernel's.

    Opening a file must not read all of it, which would take as long as a build.
    """
    x, file, asked = np.random.default_rng(0).standard_normal((50, 5)), tmp_path / "tiles.bin", []

    def counting(a, b):
        asked.append(len(a))
        return kernel(a, b)

    built = Tiles.of(counting, x, "float64", file)
    before = np.asarray(built)
    asked.clear()
    Tiles.of(counting, x, "float64", file)
    tiles_of_4, slabs = 13, 5  # with 12 rows in each slab
    # The few entries before these are needed for the file's mark, a hash that identifies the kernel, and for the check
    # of symmetry.
    assert sum(asked) - asked[-1] < 4 * 50 and asked[-1] == tiles_of_4 + slabs
    content = bytearray(file.read_bytes())
    # Every fourth row is checked, so row 16 is checked and row 17 is not.
    for row, refused in ((16, True), (17, False)):
        number, within = divmod(row, 12)
        at = tiles.TilesFile.of(file, tiles._mark(counting, x, "float64"), built.rows, "float64")._at(number)
        changed = content.copy()
        changed[at + 8 * within * built.rows[number][1] + 7] ^= 0x80  # This changes the sign of the row's first entry.
        file.write_bytes(changed)
        if refused:
            with pytest.raises(ValueError, match="has tiles of another kernel: some entries are off by"):
                Tiles.of(counting, x, "float64", file)
        else:
            # The two changed entries are an entry and its mirror image.
            assert (np.asarray(Tiles.of(counting, x, "float64", file)) != before).sum() == 2


def test_a_file_that_another_process_has_made_meanwhile_is_kept(tmp_path, monkeypatch):
    problem, file = ragged([40, 70]), tmp_path / "tiles.bin"
    whole, exists = Tiles.of(gram.deep, problem.x, "float64", file), Path.exists
    before, unseen = file.read_bytes(), [file]
    monkeypatch.setattr(Path, "exists", lambda path: False if path in unseen and unseen.pop() else exists(path))
    assert np.array_equal(np.asarray(Tiles.of(gram.deep, problem.x, "float64", file)), np.asarray(whole))
    assert not unseen and file.read_bytes() == before and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("kernel", [gram.infinite, gram.deep])
def test_entries_below_what_float32_keeps_are_refused(kernel):
    x = 1e-20 * np.random.default_rng(0).standard_normal((20, 5))
    Tiles.of(kernel, 1e6 * x, "float32")
    with pytest.raises(ValueError, match=r"float32 tiles need one of 1\.97e-31; take float64 tiles, or multiply"):
        Tiles.of(kernel, x, "float32")


def test_a_residual_at_the_start_whose_squares_vanish_has_no_bound():
    """A residual at the start whose squares vanish has no bound.

    The residual has the norm 0 in float64, and bounds that are multiples of the norm are 0 too. But the residual's
    rounding error is not 0.
    """
    problem = ragged([3, 9, 5])
    labels = np.where(np.arange(problem.n) == 4, 1e-170, problem.y)
    regime = kernel_regime(replace(problem, y=labels), Setup(eta_local=0.1, local_steps=4), matrix_free=True)
    outputs = np.where(np.arange(problem.n) == 4, 0.0, labels)
    for asked in (regime.residual_estimate, regime.movement_estimate, regime.left_estimate):
        with pytest.raises(ValueError, match=r"no error bound is proved for a residual of at most 1e-170 at the start"):
            asked([1, 3], outputs)
    assert not regime.residual_estimate([1, 3], labels).value.any()


def test_a_column_of_labels_whose_squares_vanish_leaves_what_the_others_give():
    problem = ragged([3, 9, 5])
    labels = np.stack([problem.y, 1e-170 * problem.y[::-1]], axis=1)
    one, two = (
        kernel_regime(replace(problem, y=y), Setup(eta_local=0.1, local_steps=4), matrix_free=True).left_estimate(
            [1, 9]
        )
        for y in (labels[:, 0], labels)
    )
    assert two.value == pytest.approx(one.value, rel=1e-12) and two.error == pytest.approx(one.error, rel=0.1)
