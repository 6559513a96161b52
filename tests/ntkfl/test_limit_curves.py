"""Tests of `limit_curves`: residuals and accuracies by round agree with those of the regime with the whole matrix.

A run that was killed continues where it was.
"""

import re
import tracemalloc
from dataclasses import replace
from io import BytesIO
from itertools import combinations
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from linear_methods import ragged

from ntkfl import data, gram, kernel_regime, limit_curves as curves_of, memory, random_rounds
from ntkfl.exact_dynamics import MatrixFreeRegime
from ntkfl.gram.tiles import Tiles
from ntkfl.limit import kept_run, lanczos, matrix_free, round_modes
from ntkfl.limit.carried_errors import Series, run_together
from ntkfl.limit.kept_run import KeptRun
from ntkfl.limit_curves import accuracy, limit_curves, several_limit_curves
from ntkfl.problem import Problem, Setup

ROUNDS = [1, 4, 30]


def images(clients=5, **more):
    return data.digits(60, target="one-hot", clients=clients, partition="shards:2", test=20, **more)


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
@pytest.mark.parametrize("tiles", ["float64", "float32"])
def test_the_curves_are_those_of_the_regime(method, tiles):
    problem = images()
    curves = limit_curves(problem, ROUNDS, method=method, local_steps=3, tiles=tiles)
    whole = kernel_regime(problem, Setup(eta_local=curves.eta_local, local_steps=3), None, method)
    assert curves.eta_local == pytest.approx(whole.step_limits.eta_local / 2, rel=1e-6)
    classes = problem.y.argmax(axis=1), problem.y_test.argmax(axis=1)
    for point in curves.points:
        off = 1e-12 if tiles == "float64" else 1e-6
        residual = np.linalg.norm(whole.residual(point.round)) / np.linalg.norm(problem.y)
        outputs = whole.outputs(point.round), whole.predict(problem.x_test, point.round)
        train, test = ((f.argmax(axis=1) == c).mean() for f, c in zip(outputs, classes, strict=True))
        assert point.residual.value == pytest.approx(residual, abs=off)
        assert abs(point.train.value - train) <= 1 / 60 and abs(point.test.value - test) <= 1 / 20
        assert point.bounded and abs(point.residual.value - residual) <= point.residual.error < 1e-2
        assert point.train.lo <= train <= point.train.hi and point.test.lo <= test <= point.test.hi


@pytest.mark.parametrize(("method", "rounds", "first"), [("scaffold", ROUNDS, 10), ("fedavg", [1, 4, 3000], 11)])
def test_a_killed_run_goes_on(tmp_path, method, rounds, first):
    problem, keep, told = images(), tmp_path / "run.npz", []

    def kill(done, total):
        told.append(done)
        if done == 17:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        limit_curves(problem, rounds, method=method, keep=keep, progress=kill)
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]
    told.clear()
    for _ in range(2):  # The second run finds every round in the file.
        again = limit_curves(problem, rounds, method=method, keep=keep, progress=lambda done, _: told.append(done))
        whole = limit_curves(problem, rounds, method=method)
        assert again.to_dict() == whole.to_dict()
    assert told[0] == first and told.count(first) == 1


METHODS = [("fedavg", {}), ("scaffold", {}), ("fedavgm", {"momentum": 0.5}), ("fedavg", {"server_rate": 1.3})]


def alike(curves, other):
    """Asserts that curves agree up to the order of sums in a product with more columns."""
    assert len(curves.points) == len(other.points)
    for point, same in zip(curves.points, other.points, strict=True):
        assert point.residual.value == pytest.approx(same.residual.value, rel=1e-12)
        assert point.residual.error == pytest.approx(same.residual.error, rel=1e-6)
        assert (point.train.value, point.test.value) == (same.train.value, same.test.value)


def test_several_methods_have_the_curves_of_each_alone_and_read_the_tiles_once(monkeypatch):
    problem, rounds, asked = images(), [1, 4, 300], []
    product = Tiles.__matmul__
    monkeypatch.setattr(Tiles, "__matmul__", lambda self, v: asked.append(v.shape[1]) or product(self, v))
    together = several_limit_curves(problem, rounds, METHODS)
    # The two runs of fedavg are computed as series, which need fewer products.
    assert len(asked) == 300 and asked[0] == 40 and asked[-1] == 20
    for curves, (method, options) in zip(together, METHODS, strict=True):
        assert (curves.method, curves.options) == (method, options)
        alike(curves, limit_curves(problem, rounds, method=method, options=options))


def test_what_is_wrong_with_the_clients_blocks_is_worked_out_once_for_all_methods(monkeypatch):
    problem, asked = images(), []
    error = Tiles.block_error
    monkeypatch.setattr(Tiles, "block_error", lambda *of: asked.append(len(of[1])) or error(*of))
    several_limit_curves(problem, ROUNDS, METHODS)
    assert sum(asked) == problem.n


def test_a_file_of_another_run_is_refused_before_any_bound_is_worked_out(monkeypatch, tmp_path):
    keep, asked = tmp_path / "run.npz", []
    several_limit_curves(images(), ROUNDS, METHODS, keep=keep)
    monkeypatch.setattr(MatrixFreeRegime, "_carried", lambda *of: asked.append(of))
    (tmp_path / "run-1.npz").unlink()
    with pytest.raises(ValueError, match=r"run-2.npz is of another run"):
        several_limit_curves(images(clients=4), ROUNDS, METHODS, keep=keep)
    assert not asked and not (tmp_path / "run-1.npz").exists()


def test_clients_that_threads_share_give_the_same(monkeypatch):
    problem = images()
    before = several_limit_curves(problem, ROUNDS, METHODS)
    monkeypatch.setattr(round_modes, "SHARED", 1)
    for curves, same in zip(several_limit_curves(problem, ROUNDS, METHODS), before, strict=True):
        alike(curves, same)


TUNED = [
    ("fedavg", {"server_rate": 2.0}),
    ("fedavg", {"server_rate": 2.4}),
    ("fedavgm", {"momentum": 0.5, "server_rate": 3.0}),
    ("scaffold", {"server_rate": 2.4}),
]


@pytest.fixture
def before_rounds(monkeypatch):
    """Counts three things before the first round: products, sums of squares of a search, and checks of
    clients' blocks.
    """
    done, rounds = {"products": 0, "squares": 0, "blocks": 0}, curves_of.run_together

    def counted(name, function):
        return lambda *of: done.update({name: done[name] + 1}) or function(*of)

    def uncounted(product, runs):
        return rounds(lambda v: multiply(product.__self__, v), runs)

    multiply = Tiles.__matmul__
    monkeypatch.setattr(lanczos, "WHOLE", 0)
    monkeypatch.setattr(Tiles, "__matmul__", counted("products", multiply))
    # The product that `fingerprint` makes is not counted.
    monkeypatch.setattr(Tiles, "fingerprint", property(lambda own: multiply(own, np.ones((len(own), 1)))))
    monkeypatch.setattr(lanczos, "_squared", counted("squares", lanczos._squared))
    monkeypatch.setattr(Tiles, "block_error", counted("blocks", Tiles.block_error))
    monkeypatch.setattr(curves_of, "run_together", uncounted)
    return done


@pytest.mark.parametrize("killed", ["before the last bounds", "before the first round", "after it"])
def test_a_run_that_goes_on_computes_no_bound_again(tmp_path, before_rounds, killed, monkeypatch):
    """A run that continues computes no bound again.

    One search for a bound is enough for all rates of FedAvg and momentum; SCAFFOLD needs one more.
    """
    problem, keep, search = images(), tmp_path / "run.npz", {"products": lanczos.PRODUCTS + 1, "squares": 1}
    whole = several_limit_curves(problem, ROUNDS, TUNED)
    assert before_rounds == {name: 2 * count for name, count in search.items()} | {"blocks": 5}

    def kill(done, total):
        if done == (0 if killed == "before the first round" else 7):
            raise KeyboardInterrupt

    def kill_early(run):
        if run.regime.method == "scaffold":
            raise KeyboardInterrupt
        prepare(run)

    prepare = KeptRun.prepare
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        if killed == "before the last bounds":
            patch.setattr(KeptRun, "prepare", kill_early)
        several_limit_curves(problem, ROUNDS, TUNED, keep=keep, progress=kill)
    before_rounds.update(dict.fromkeys(before_rounds, 0))
    again = several_limit_curves(problem, ROUNDS, TUNED, keep=keep)
    assert before_rounds == (search if killed == "before the last bounds" else dict.fromkeys(search, 0)) | {"blocks": 0}
    assert [curves.to_dict() for curves in again] == [curves.to_dict() for curves in whole]


def test_bounds_of_other_bases_of_the_clients_are_computed_again(tmp_path, before_rounds, monkeypatch):
    given, keep = (images(), ROUNDS, None, *TUNED[-1]), tmp_path / "run.npz"
    limit_curves(*given, keep=keep)
    once, decomposed = dict(before_rounds), round_modes.ClientModes.of
    limit_curves(*given, keep=keep)
    assert before_rounds == once
    monkeypatch.setattr(
        round_modes.ClientModes,
        "of",
        lambda *of: replace(modes := decomposed(*of), vectors=tuple(1.0000000001 * basis for basis in modes.vectors)),
    )
    limit_curves(*given, keep=keep)
    assert before_rounds == {name: 2 * count for name, count in once.items()}


def test_bounds_of_products_that_round_more_are_computed_again(tmp_path, before_rounds, monkeypatch):
    """Bounds for products with larger rounding errors are computed again.

    The run that this process continues may have begun on a device, whose sums have any order.
    """
    given, keep, rounding = (images(), ROUNDS, None, *TUNED[-1]), tmp_path / "run.npz", Tiles.product_rounding
    with monkeypatch.context() as patch:
        patch.setattr(Tiles, "product_rounding", property(lambda self: 100 * rounding.__get__(self)))
        limit_curves(*given, keep=keep)
    once = dict(before_rounds)
    limit_curves(*given, keep=keep)
    assert before_rounds == {name: 2 * count for name, count in once.items()}


def test_a_series_goes_on_in_the_interval_of_its_first_terms(tmp_path, monkeypatch):
    """A series continues with the interval that its first terms used, which holds the eigenvalues.

    With larger rounding errors the bound of the largest eigenvalue is higher, and other polynomials would have other
    terms.
    """
    problem, keep, rounding = ragged([9, 12, 5, 14], d=8, seed=3), tmp_path / "run.npz", Tiles.product_rounding

    def curves(kill=0, file=None):
        def stop(done):
            if done == kill:
                raise KeyboardInterrupt

        setup = Setup(eta_local=0.1, local_steps=4)
        regime = kernel_regime(problem, setup, None, "fedavg", {"server_rate": 7.0}, matrix_free=True)
        run = KeptRun(regime, np.array([6400]), regime._labels, proved=True, file=file, progress=stop)
        run.prepare()
        return run._largest, run_together(regime.tiles.__matmul__, [run.asking()])[0][0]

    largest, fresh = curves()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Tiles, "product_rounding", property(lambda self: 1e6 * rounding.__get__(self)))
        curves(200, keep)
    wider, went_on = curves(file=keep)
    assert 1.5 < largest < wider < 2
    assert np.abs(went_on.residual - fresh.residual).max() < 1e-12


def test_several_methods_go_on_after_a_kill(tmp_path):
    problem, keep, told = images(), tmp_path / "run.npz", []

    def kill(done, total):
        told.append((done, total))
        if done == 57:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        several_limit_curves(problem, ROUNDS, METHODS, keep=keep, progress=kill)
    kept = {f"run-{number}.npz" for number in (1, 2, 3, 4)}
    assert {path.name for path in tmp_path.iterdir()} == kept
    told.clear()
    again = several_limit_curves(problem, ROUNDS, METHODS, keep=keep, progress=lambda *done: told.append(done))
    assert told[0][0] == 10 and told[-1][0] == 120 and {total for _, total in told} == {120}
    for curves, (method, options) in zip(again, METHODS, strict=True):
        alike(curves, limit_curves(problem, ROUNDS, method=method, options=options))


def test_a_file_of_another_run_is_refused(tmp_path):
    problem, keep = images(), tmp_path / "run.npz"
    limit_curves(problem, ROUNDS, method="scaffold", keep=keep)
    for other in (images(seed=1), images(clients=4)):
        with pytest.raises(ValueError, match="is of another run"):
            limit_curves(other, ROUNDS, method="scaffold", keep=keep)
    with pytest.raises(ValueError, match="is of another run"):
        limit_curves(problem, ROUNDS, method="feddyn", keep=keep)
    with pytest.raises(ValueError, match="is of another run"):
        limit_curves(problem, [1, 2, 30], method="scaffold", keep=keep)
    limit_curves(problem, ROUNDS, method="scaffold", eta_local=0.01, keep=(own := tmp_path / "own.npz"))
    with pytest.raises(ValueError, match="is of another run"):
        limit_curves(problem, ROUNDS, lambda x, z: gram.infinite(x, z) / 2, "scaffold", eta_local=0.01, keep=own)

    def same_last_row(share):
        def others(x):
            return share * (x != problem.x[-1]).any(axis=1)

        return lambda x, z: gram.infinite(x, z) + np.outer(others(x), others(x if z is None else z))

    limit_curves(problem, ROUNDS, same_last_row(0.1), "scaffold", eta_local=0.01, keep=(row := tmp_path / "row.npz"))
    with pytest.raises(ValueError, match="is of another run"):
        limit_curves(problem, ROUNDS, same_last_row(0.2), "scaffold", eta_local=0.01, keep=row)
    assert 1 not in np.linspace(0, problem.n - 1, kept_run.ROWS).astype(int)  # Row 1 is not compared.

    def another_second_entry(x, z):
        second = [(own == problem.x[1]).all(axis=1) for own in (x, x if z is None else z)]
        return gram.infinite(x, z) + 1e-3 * np.outer(*second)

    with pytest.raises(ValueError, match="is of another run"):
        limit_curves(problem, ROUNDS, another_second_entry, "scaffold", keep=keep)
    with pytest.raises(ValueError, match="there is no folder"):
        limit_curves(problem, ROUNDS, keep=tmp_path / "none" / "run.npz")


def test_a_file_of_a_kernel_with_the_same_rows_and_the_same_size_is_refused(tmp_path):
    problem, keep = images(), tmp_path / "run.npz"
    rows = np.linspace(0, problem.n - 1, kept_run.ROWS).astype(int).tolist()
    assert not {1, 2, 5, 6} & {*rows}  # Rows 1, 2, 5 and 6 are not among the rows that are compared.

    def joined(first, second):
        """Returns a kernel that is 1 for equal samples, and 1/2 between the two given samples."""

        def kernel(x, z=None):
            same = [(own[:, None] == problem.x).all(axis=2) for own in (x, x if z is None else z)]
            h = np.eye(problem.n)
            h[[first, second], [second, first]] = 0.5
            return same[0] @ h @ same[1].T

        return kernel

    assert np.linalg.norm(joined(1, 2)(problem.x)) == np.linalg.norm(joined(5, 6)(problem.x))
    limit_curves(problem, ROUNDS, joined(1, 2), "scaffold", eta_local=0.01, keep=keep)
    with pytest.raises(ValueError, match="is of another run"):
        limit_curves(problem, ROUNDS, joined(5, 6), "scaffold", eta_local=0.01, keep=keep)


@pytest.mark.parametrize("name", ["residual", "at_4", "bounds_4", "sums", "of_clients", "seen", "rounding"])
def test_a_file_whose_numbers_were_changed_is_refused(tmp_path, name):
    keep = tmp_path / "run.npz"
    limit_curves(images(), ROUNDS, method="scaffold", keep=keep)
    with np.load(keep) as file:
        kept = dict(file)
    for changed in (kept[name] * np.nan, kept[name] * (1 + 1e-9), kept[name].ravel()[:0]):
        np.savez(keep, **kept | {name: changed})
        with pytest.raises(ValueError, match="was changed after a run wrote it; name another file"):
            limit_curves(images(), ROUNDS, method="scaffold", keep=keep)


def test_a_file_with_bounds_by_other_rules_is_refused(tmp_path, monkeypatch):
    """A file with bounds by other rules is refused; a file without a version number has version 1."""
    keep = tmp_path / "run.npz"
    limit_curves(images(), ROUNDS, method="scaffold", keep=keep)
    with np.load(keep) as file:
        kept = dict(file)
    del kept["version"], kept["seen"], kept["digest"]
    np.savez(keep, **kept)
    said = r"run.npz has error bounds by rules of version 1, and the run would go on with rules of version 2; name"
    with pytest.raises(ValueError, match=said):
        limit_curves(images(), ROUNDS, method="scaffold", keep=keep)


SCHEDULE = {"eta_local": [0.2, 0.1]}
VERSION_2 = {  # bounds of the errors of the residual's norm, of its entries and of the coefficients
    "averaging": ("fedavg", {}, {}, 40, (5.4431e-06, 4.8643e-06, 3.46e-06)),
    "a series": ("fedprox", {"mu": 0.3}, {}, 3000, (4.0251e-04, 1.5413e-04, 2.0169e-04)),
    "in turn": ("cyclic", {}, {}, 40, (2.8353e-05, 1.3612e-05, 1.195e-05)),
    "heavy ball": ("fedavgm", {"momentum": 0.6}, {}, 40, (2.3231e-05, 1.1275e-05, 9.6933e-06)),
    "Nesterov": ("fedavgm", {"momentum": 0.6, "nesterov": True}, {}, 40, (2.6992e-05, 1.2655e-05, 1.1623e-05)),
    "SCAFFOLD": ("scaffold", {}, {}, 40, (1.2707e-05, 6.1768e-06, 5.2942e-06)),
    "FedDyn": ("feddyn", {"alpha": 2.0}, {}, 40, (1.2771e-05, 6.4894e-06, 5.0926e-06)),
    "averaging, a schedule": ("fedavg", {}, SCHEDULE, 40, (5.7507e-06, 4.9805e-06, 3.5651e-06)),
    "SCAFFOLD, a schedule": ("scaffold", {}, SCHEDULE, 40, (1.2854e-05, 6.2573e-06, 5.3481e-06)),
    "FedDyn, a schedule": ("feddyn", {"alpha": 2.0}, SCHEDULE, 40, (1.2957e-05, 6.5719e-06, 5.1769e-06)),
}


@pytest.mark.parametrize("name", VERSION_2)
def test_the_version_of_the_rules_of_error_bounds_has_these_bounds(name):
    """This version of the rules for error bounds gives these bounds.

    If bounds change, older files must be refused. Then `kept_run.VERSION` and the numbers here need a change.
    """
    method, options, more, rounds, bounds = VERSION_2[name]
    problem, setup = ragged([6, 9, 5]), Setup(eta_local=0.1, local_steps=4)
    regime = kernel_regime(problem, setup, None, method, options, **more, matrix_free="float32")
    (run,) = regime._bounded(np.array([rounds]))
    assert kept_run.VERSION == 2 and run[2:] == pytest.approx(bounds, rel=1e-3)


@pytest.mark.parametrize("cohort", [1, 2])
@pytest.mark.parametrize("counts", [[1, 4, 2], [3, 3, 3]])
def test_fednova_of_drawn_clients_is_the_mean_over_all_draws(cohort, counts):
    rng, eta = np.random.default_rng(0), 0.05
    problem = Problem(rng.standard_normal((8, 3)), rng.uniform(-1, 1, 8), np.repeat([0, 1, 2], [1, 2, 5]))
    h, moves, residual = gram.infinite(problem.x), [], problem.y
    for drawn in combinations(range(3), cohort):
        move, of_drawn = np.zeros((8, 8)), sum(np.sum(problem.owner == client) for client in drawn)
        weights = {client: np.sum(problem.owner == client) / of_drawn for client in drawn}
        walked = sum(weight * counts[client] for client, weight in weights.items())
        for client, weight in weights.items():
            own = np.ix_(*[np.flatnonzero(problem.owner == client)] * 2)
            step = np.eye(len(own[0])) - eta * h[own]
            local = sum(eta * np.linalg.matrix_power(step, k) for k in range(counts[client]))
            move[own] = weight * walked / counts[client] * local
        moves.append(move)
    for _ in range(4):
        residual = residual - h @ np.mean(moves, axis=0) @ residual
    (point,) = limit_curves(
        problem, [4], method="fednova", eta_local=eta, client_steps=counts, participation=cohort / 3
    ).points
    assert point.residual.value == pytest.approx(np.linalg.norm(residual) / np.linalg.norm(problem.y), rel=1e-12)


@pytest.mark.parametrize(("method", "options"), [("fedavg", {"server_rate": 1.2}), ("fedavgm", {"momentum": 0.5})])
def test_drawn_clients_give_the_mean_of_random_rounds(method, options):
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((12, 3)), rng.uniform(-1, 1, 12), np.repeat([0, 1, 2, 3], [1, 2, 3, 6]))
    curves = limit_curves(problem, ROUNDS, method=method, options=options, local_steps=3, participation=0.5)
    drawn = random_rounds(
        problem, Setup(eta_local=curves.eta_local, local_steps=3), None, method, options, participation=0.5
    )
    for point, residual in zip(curves.points, drawn.mean.residual(ROUNDS), strict=True):
        exact = np.linalg.norm(residual) / np.linalg.norm(problem.y)
        assert abs(point.residual.value - exact) <= point.residual.error < 1e-8
    everyone = limit_curves(problem, ROUNDS, method=method, options=options, local_steps=3)
    assert everyone.points[1].residual.value != curves.points[1].residual.value


def test_clients_with_steps_of_their_own():
    problem, steps = images(), [1, 2, 3, 4, 5]
    curves = limit_curves(problem, ROUNDS, method="fedavg", client_steps=steps)
    whole = kernel_regime(problem, Setup(eta_local=curves.eta_local), None, "fedavg", client_steps=steps)
    for point, residual in zip(curves.points, whole.residual(ROUNDS), strict=True):
        assert abs(point.residual.value - np.linalg.norm(residual) / np.linalg.norm(problem.y)) < 1e-9


SCHEDULES = {"eta_local": [0.02, 0.01, 0.005], "local_steps": [3, 1]}


@pytest.mark.parametrize(
    ("method", "more"),
    [("fedavg", {"eta_global": [1.0, 0.8]}), ("fedavg", {}), ("fl-ntk", {"local_steps": 2}), ("cyclic", {})],
)
def test_schedules_are_those_of_the_regime(tmp_path, method, more):
    problem, schedules, keep = images(), SCHEDULES | more, tmp_path / "run.npz"
    curves = limit_curves(problem, ROUNDS, method=method, tiles="float64", keep=keep, **schedules)
    by_round = {name: steps for name, steps in schedules.items() if isinstance(steps, list)}
    whole = kernel_regime(problem, Setup(local_steps=2), None, method, **by_round)
    for point, residual in zip(curves.points, whole.residual(ROUNDS), strict=True):
        exact = np.linalg.norm(residual) / np.linalg.norm(problem.y)
        assert point.residual.value == pytest.approx(exact, abs=1e-12)
        assert point.bounded and abs(point.residual.value - exact) <= point.residual.error < 1e-6
    assert {name: getattr(curves, name) for name in schedules} == schedules
    again = limit_curves(problem, ROUNDS, method=method, tiles="float64", keep=keep, **schedules)
    assert again.to_dict() == curves.to_dict()
    with pytest.raises(ValueError, match="is of another run"):
        limit_curves(
            problem, ROUNDS, method=method, tiles="float64", keep=keep, **schedules | {"eta_local": [0.03, 0.01, 0.005]}
        )


def test_a_schedule_of_drawn_clients_is_the_mean_of_random_rounds():
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((12, 3)), rng.uniform(-1, 1, 12), np.repeat([0, 1, 2, 3], [1, 2, 3, 6]))
    curves = limit_curves(problem, [1, 4], method="fedavg", eta_local=[0.05, 0.02], participation=0.5)
    drawn = random_rounds(problem, Setup(local_steps=5), None, "fedavg", eta_local=[0.05, 0.02], participation=0.5)
    for point, residual in zip(curves.points, drawn.residual([1, 4]), strict=True):
        assert point.residual.value == pytest.approx(np.linalg.norm(residual) / np.linalg.norm(problem.y), rel=1e-12)


def archive(place, byte):
    """Returns a file of numpy's archive format with one array, named `mark`.

    One byte is replaced. It is the byte at this place of the array's entry in the archive's directory.
    """
    np.savez(file := BytesIO(), mark=np.array(""))
    content = bytearray(file.getvalue())
    content[content.index(b"PK\x01\x02") + place] = byte
    return bytes(content)


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04", b"\x93NUMPY", archive(8, 1), archive(10, 8), archive(10, 99)],
    ids=["empty", "archive", "array", "encrypted", "not compressed", "unknown compression"],
)
def test_a_file_that_is_no_state_is_refused_and_stays(tmp_path, content):
    keep = tmp_path / "run.npz"
    keep.write_bytes(content)
    with pytest.raises(ValueError, match="is no state of a run"):
        limit_curves(images(), [1], method="scaffold", keep=keep)
    assert keep.read_bytes() == content


@settings(max_examples=30)
@given(
    eighths=st.lists(st.lists(st.integers(-8, 8), min_size=3, max_size=3), min_size=1, max_size=6),
    seed=st.integers(0, 99),
    error=st.sampled_from([0.0, 0.1, 0.3]),
)
def test_whatever_the_error_did_the_share_is_in_its_interval(eighths, seed, error):
    rng, outputs = np.random.default_rng(seed), np.array(eighths) / 8
    hot = np.eye(3)[rng.integers(0, 3, len(outputs))]
    share = accuracy(outputs, hot, np.full(len(outputs), error))
    for _ in range(5):
        moved = outputs + rng.uniform(-error, error, outputs.shape)
        ahead = moved[hot == 1] - np.where(hot == 1, -np.inf, moved).max(axis=1)
        assert share.lo <= (ahead > 0).mean() and (ahead >= 0).mean() <= share.hi


def test_labels_that_are_no_classes_have_no_accuracy():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 3)), rng.standard_normal(8)
    points = limit_curves(Problem(x, y), [0, 3]).points
    assert all(point.train is None and point.test is None for point in points)
    assert points[0].residual.value == 1
    signs = limit_curves(Problem(x, np.sign(y)), [500]).points[0]
    assert signs.train.value == 1


@pytest.mark.parametrize(
    ("rounds", "more", "said"),
    [
        ([], {}, "rounds is empty"),
        ([-1], {}, "rounds contains -1"),
        ([1], {"tiles": "float16"}, "tiles is 'float16'; it is True, 'float64' or 'float32'"),
        ([1], {"eta_local": 50.0}, "the residual grows"),
        ([1], {"method": "moon"}, "has no exact linear limit"),
        ([1], {"method": "scaffold", "participation": 0.5}, r"not of scaffold\. ntkfl.random_rounds has the mean"),
        ([1], {"participation": 1.5}, "participation is 1.5"),
        ([1], {"client_steps": [1, 2]}, "a positive integer for each of"),
        ([1], {"eta_local": []}, r"eta_local is \[\]; a schedule is a sequence of at least one step"),
        ([1], {"eta_local": [0.1, -1]}, "eta_local is -1"),
        ([1], {"local_steps": [1, 0]}, "local_steps is 0"),
        ([1], {"eta_global": 2.0}, "eta_global is 2.0; a schedule is a sequence"),
        ([1], {"eta_global": [1.0, 2.0], "method": "feddyn"}, "feddyn"),
        ([1], {"eta_global": [1.0], "options": {"server_rate": 2.0}}, "eta_global is a schedule and server_rate 2.0"),
        ([1], {"local_steps": [1, 2], "client_steps": [1] * 5}, "local_steps is a schedule and client_steps are given"),
    ],
)
def test_bad_input_is_said(rounds, more, said):
    with pytest.raises(ValueError, match=said):
        limit_curves(images(), rounds, **more)


def test_rounds_one_after_another_that_take_more_than_a_day_or_a_quarter_of_an_hour_are_refused(tmp_path, monkeypatch):
    """Rounds that would take too long are refused.

    The limit is about a day of one core. It is a quarter of an hour if no file keeps the run and the samples are so few
    that powers of a round's map take only seconds.

    If a file has a part of the run, only the remaining rounds count.
    """
    problem, keep = images(), tmp_path / "run.npz"
    with pytest.raises(
        ValueError, match=r"the rounds of fedavgm, one after another, .* rounds up to \d+ would fit"
    ) as why:
        limit_curves(problem, [10**10], method="fedavgm")
    most = int(re.search(r"up to (\d+) would fit", str(why.value))[1])
    assert 10**6 < most < 10**8 and "a run that a file keeps" in str(why.value)
    regime = kernel_regime(problem, Setup(eta_local=1e-3), method="fedavgm", matrix_free=True)
    KeptRun(regime, np.array([most + 5]), problem.y, file=keep)._require_time(0, series=False)
    run = KeptRun(regime, np.array([100 * most + 500]), problem.y, file=keep)
    with pytest.raises(ValueError, match="would fit"):
        run._require_time(0, series=False)
    run._require_time(500, series=False)
    monkeypatch.setattr(Series, "of", lambda *of: pytest.fail("the coefficients of so many rounds take seconds"))
    with pytest.raises(ValueError, match=r"the rounds of fedavg, as a series, .* rounds up to \d+ would fit") as why:
        limit_curves(problem, [10**13], method="fedavg")
    most = int(re.search(r"up to (\d+) would fit", str(why.value))[1])
    regime = kernel_regime(problem, Setup(eta_local=1e-3), method="fedavg", matrix_free=True)
    KeptRun(regime, np.array([most]), problem.y)._require_time(0, series=True)
    for ask in (regime.residual, regime.outputs, regime.movement, regime.residual_estimate):
        with pytest.raises(
            ValueError, match=r"the rounds of fedavg, as a series, .* without matrix_free computes many"
        ):
            ask(10**13)
    regime = kernel_regime(problem, Setup(eta_local=1e-3), method="fedavgm", matrix_free=True)
    with pytest.raises(ValueError, match="the rounds of fedavgm, one after another"):
        regime.residual(10**12)


def test_error_bounds_of_many_local_steps_take_no_memory_for_each_step():
    steps, problem = 20_000, images()
    regime = kernel_regime(problem, Setup(eta_local=1e-3, local_steps=steps), method="fedavg", matrix_free=True)
    _ = regime._block_errors, regime.tiles.norm
    tracemalloc.start()
    try:
        margins = regime._margins
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * steps * problem.n / 10
    assert margins.steepest < 2


def test_no_method_at_all_is_said():
    with pytest.raises(ValueError, match="methods is empty; name at least one method"):
        several_limit_curves(images(), [1], [])


@pytest.mark.parametrize(
    "ask", [lambda problem: limit_curves(problem, [1]), lambda problem: random_rounds(problem, Setup())]
)
def test_where_no_method_is_named_it_is_that_of_kernel_regime(ask):
    x = np.random.default_rng(0).standard_normal((6, 4))
    assert ask(Problem(x, np.ones(6), np.array([0, 0, 0, 0, 1, 1]))).method == "fl-ntk"


@pytest.mark.parametrize("eta_local", [1e13, 1e60, 1e200])
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_steps_far_beyond_the_limit_are_refused_with_the_step_that_would_do(eta_local):
    with pytest.raises(ValueError, match=r"grows out of float64 within a few rounds; with eta_local < \d"):
        limit_curves(data.sphere(n=6), [1], method="fl-ntk", eta_local=eta_local, local_steps=5)


def asked_and_peak(problem, named, rounds):
    """Returns the memory that a run with float64 tiles asks for, and the most that it takes."""
    asked = []

    def seen(what, needs, limit=None, hint="", **sizes):
        asked.append((what, needs(**sizes)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix_free, "require", seen)
        # The first run is not measured, so that imports and compiled code do not count.
        several_limit_curves(images(), rounds, named)
        asked.clear()
        tracemalloc.start()
        several_limit_curves(problem, rounds, named, local_steps=2, tiles="float64")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    what, needed = asked[0]
    assert what == "a run with float64 tiles"
    return needed, peak


@pytest.mark.parametrize(
    ("sizes", "tested"), [([200] * 3, 4000), ([1] * 700, 5), ([500] + [5] * 100, 5)], ids=["tests", "one each", "half"]
)
def test_free_memory_below_what_a_run_takes_is_refused_before_the_build(sizes, tested, monkeypatch):
    rng, owner = np.random.default_rng(0), np.repeat(np.arange(len(sizes)), sizes)
    x, y = rng.standard_normal((len(owner) + tested, 6)), rng.choice([-1.0, 1.0], len(owner) + tested)
    problem = Problem(x[tested:], y[tested:], owner, x[:tested], y[:tested])
    needed, peak = asked_and_peak(problem, [("fedavg", {})], [1, 10])
    assert 0.5 * needed < peak < needed
    monkeypatch.setattr(matrix_free.Tiles, "of", lambda *arguments: pytest.fail("built before memory was asked for"))
    monkeypatch.setattr(memory, "NEGLIGIBLE", 0)
    monkeypatch.setattr(memory, "available", lambda: peak)
    with pytest.raises(memory.TooLittleMemory, match=r"float64 tiles takes .* of memory and .* are available"):
        limit_curves(problem, [1, 10], method="fedavg", local_steps=2, tiles="float64")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"method": "fedavy"}, "there is no method 'fedavy'"),
        ({"method": "scaffold", "options": {"mu": 1}}, "scaffold has no option 'mu'"),
        ({"method": "fedadam"}, "fedadam has no exact linear limit"),
        ({"method": "scaffold", "participation": 0.5}, "participation is 0.5"),
        ({"client_steps": [1, 2]}, r"client_steps are \[1, 2\]; there must be a positive integer for each of"),
    ],
)
def test_what_no_samples_would_make_right_is_refused_before_the_build(more, said, monkeypatch):
    monkeypatch.setattr(matrix_free.Tiles, "of", Mock(side_effect=AssertionError("built before the refusal")))
    with pytest.raises(ValueError, match=said):
        limit_curves(images(), [1], **more)
    if "participation" not in more:
        with pytest.raises(ValueError, match=said):
            kernel_regime(images(), Setup(), matrix_free=True, **more)


def test_a_matrix_in_place_of_a_kernel_and_a_row_of_zeros_are_named():
    problem = images()
    with pytest.raises(ValueError, match=r"gram is ndarray; tiles take a kernel, a function \(x, z\) -> \(p, n\)"):
        limit_curves(problem, [1], np.eye(problem.n))
    x, y = np.vstack([problem.x, problem.x]), np.concatenate([problem.y, problem.y])
    x[70] = 0
    with pytest.raises(ValueError, match="row 70 of x is zero"):
        limit_curves(Problem(x, y), [1])


@pytest.mark.parametrize("methods", [["fedavg"], ["scaffold", "fedavgm"]])
def test_what_many_label_columns_take_is_asked_for_before_the_build(methods, monkeypatch):
    """With 1500 columns of labels the memory asked for is the run's peak; too little memory is refused at once."""
    base, rng = ragged([40, 25, 60]), np.random.default_rng(0)
    y = np.eye(1500)[rng.integers(0, 1500, base.n)]
    problem = Problem(base.x, y, base.owner, rng.standard_normal((30, base.d)), np.eye(1500)[rng.integers(0, 1500, 30)])
    named, rounds = [(method, {}) for method in methods], [1, 3, 10, 30, 100]
    needed, peak = asked_and_peak(problem, named, rounds)
    assert 0.5 * needed < peak < needed

    monkeypatch.setattr(matrix_free.Tiles, "of", Mock(side_effect=AssertionError("built before memory was asked for")))
    monkeypatch.setattr(memory, "NEGLIGIBLE", 0)
    monkeypatch.setattr(memory, "available", lambda: needed / 2)
    would = r"n up to \d+ or label columns up to \d+ or reported rounds up to \d+ would fit"
    with pytest.raises(
        memory.TooLittleMemory, match=rf"float32 tiles takes .* of memory and .* are available; {would}"
    ):
        several_limit_curves(problem, rounds, named, local_steps=2)
