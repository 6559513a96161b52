"""Tests of kernels of features: without any (n, n) matrix, results are those of the regime with the whole matrix."""

from fractions import Fraction

import numpy as np
import pytest

from ntkfl import data, gram, kernel_regime, memory
from ntkfl.gram.tiles import NULL, FeatureGram, Tiles
from ntkfl.limit_curves import limit_curves
from ntkfl.problem import Problem, Setup


def images():
    return data.digits(60, target="one-hot", clients=5, partition="shards:2", test=20)


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
# The first case runs rounds one by one; in the second, rounds of fedavg also run as a series.
@pytest.mark.parametrize("rounds", [[1, 4], [1, 300]])
def test_curves_by_features_are_those_of_their_whole_matrix(method, rounds, monkeypatch):
    problem = images()
    kernel = gram.nystroem(problem.x, 25)
    monkeypatch.setattr(Tiles, "of", None)
    curves = limit_curves(problem, rounds, kernel, method)
    whole = kernel_regime(problem, Setup(eta_local=curves.eta_local, local_steps=5), kernel, method)
    for point in curves.points:
        residual = np.linalg.norm(whole.residual(point.round)) / np.linalg.norm(problem.y)
        tested = (whole.predict(problem.x_test, point.round).argmax(axis=1) == problem.y_test.argmax(axis=1)).mean()
        assert point.bounded and abs(point.residual.value - residual) <= point.residual.error + 1e-12
        assert point.residual.error < 1e-7 and point.test.lo <= tested <= point.test.hi


def test_the_questions_of_a_regime_are_answered_by_features():
    problem, setup = images(), Setup(eta_local=0.02, local_steps=3)
    kernel = gram.nystroem(problem.x, 25)
    regime = kernel_regime(problem, setup, kernel, "fedavg", matrix_free=True)
    whole = kernel_regime(problem, setup, kernel, "fedavg")
    assert isinstance(regime.tiles, FeatureGram)
    assert np.abs(regime.outputs(7) - whole.outputs(7)).max() < 1e-11
    assert np.abs(regime.predict(problem.x_test, 7) - whole.predict(problem.x_test, 7)).max() < 1e-11
    assert regime.movement(7) == pytest.approx(whole.movement(7), rel=1e-9)
    limits = regime.step_limits, whole.step_limits
    assert limits[0].eta_local == pytest.approx(limits[1].eta_local, rel=1e-9)


def test_all_samples_as_landmarks_give_the_kernel():
    x = images().x
    assert np.abs(gram.nystroem(x, len(x))(x) - gram.infinite(x)).max() < 1e-10
    few = gram.infinite(x) - gram.nystroem(x, 20)(x)
    values = np.linalg.eigvalsh(few)
    # What 20 landmarks leave out is positive semi-definite, up to rounding.
    assert values[0] > -1e-10 and values[-1] > 1e-3


def test_parallel_landmarks_count_once():
    x = np.random.default_rng(0).standard_normal((4, 3))
    twice = np.concatenate([x, x])
    kernel = gram.nystroem(twice, 8)
    assert kernel.count == 4
    assert np.abs(kernel(twice) - gram.infinite(twice)).max() < 1e-10 and NULL < 1e-10


def test_bounds_cover_the_rounding():
    rng = np.random.default_rng(0)
    held = rng.standard_normal((40, 6)) * 10.0 ** rng.uniform(-6, 6, 6)
    kernel = gram.Features(lambda x: x, 6)
    tiles, v = FeatureGram.by(kernel, held), rng.standard_normal((40, 1))
    fractions = np.vectorize(Fraction, otypes=[object])
    rows = fractions(held)
    exact = rows @ rows.T
    off = np.linalg.norm((fractions(tiles @ v) - exact @ fractions(v)).astype(float))
    assert 0 < off <= tiles.product_rounding * np.linalg.norm(v)
    some = np.array([1, 5, 9])
    block = tiles[np.ix_(some, some)]
    wrong = (fractions(block) - exact[np.ix_(some, some)]).astype(float)
    assert np.linalg.norm(wrong) <= tiles.block_error(some, block)
    size = np.linalg.norm(np.array(exact, float))
    assert size <= tiles.norm <= size * (1 + 1e-9)
    assert tiles.trace == pytest.approx(np.trace(held @ held.T)) and len(tiles) == 40
    assert np.allclose(tiles[np.array([3])], (held @ held.T)[3])
    with pytest.raises(AttributeError, match=r"^HeldGram has no seen: it is fingerprint$"):
        tiles.seen  # noqa: B018


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda x: gram.nystroem(x, 0), "landmarks is 0; it must be from 1 to the number of samples, 60"),
        (
            lambda x: gram.nystroem(x, 5, lambda a, b: np.zeros((5, 5))),
            "largest eigenvalue on the landmarks is 0; it must be positive",
        ),
        (lambda x: gram.Features(lambda z: z[:, :2], 3)(x), r"shape \(60, 2\); they must be \(60, 3\)"),
        (lambda x: gram.Features(lambda z: z * np.nan, x.shape[1])(x), "of"),
    ],
)
def test_bad_input_is_said(ask, said):
    with pytest.raises(ValueError, match=said):
        ask(images().x)


def test_features_are_refused_as_tiles_and_where_they_do_not_fit(monkeypatch, tmp_path):
    problem = images()
    kernel = gram.nystroem(problem.x, 5)
    for more in ({"tiles": "float32"}, {"memmap": tmp_path / "tiles"}):
        with pytest.raises(ValueError, match="a kernel of features needs no tiles"):
            limit_curves(problem, [1], kernel, "fedavg", **more)
    monkeypatch.setattr(memory, "left_for", lambda needed: 10_000)
    with pytest.raises(memory.TooLittleMemory, match=r"a run with features takes .* n up to"):
        limit_curves(problem, [1], kernel, "fedavg")


def test_the_bound_of_predictions_counts_the_features_of_a_sum():
    count, small = 2**16, 2.0**-27  # Each product small^2 is rounded away in a sum with 1.

    def of(x):
        return np.hstack([x, np.full((len(x), count - 2), small)])

    problem, eta = Problem(np.eye(2), np.array([1.0, 0.5]), np.arange(2)), 2.0**-10
    regime = kernel_regime(problem, Setup(eta_local=eta, local_steps=1), gram.Features(of, count), matrix_free=True)
    estimate = regime.predict_estimate(np.array([[1.0, 0.0]]), 1)
    shared = Fraction(small) ** 2 * (count - 2)
    exact = Fraction(eta) / 2 * (1 + shared + shared / 2)
    off = abs(float(Fraction(float(estimate.value[0])) - exact))
    assert off <= estimate.error[0] <= 1e-10 * float(exact)
