"""Tests of the search for the fastest method on given data: the rounds of each method are exact.

No method with client-local steps needs fewer rounds than the stated lower bound (the floor).
"""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ntkfl import data, fastest_method, gram, kernel_regime
from ntkfl.exact_dynamics import base_regime, of_method
from ntkfl.fastest_method import fastest, least_condition
from ntkfl.fewest_rounds import METHODS, NO_MODES, Search
from ntkfl.limit import rounds_between
from ntkfl.limit.infinite_width import algorithm1_limit
from ntkfl.limit.rounds_between import falls_on, left_after
from ntkfl.problem import Problem, Setup


def digits(n=16, clients=3, partition="iid"):
    return data.BUILT_IN["digits"](n=n, clients=clients, partition=partition, seed=1)


@pytest.fixture(scope="module")
def comparison():
    return fastest(digits(), local_steps=(1, 4))


def again(problem, one, gram=None):
    setup = Setup(eta_local=one.eta_local, local_steps=one.local_steps)
    return kernel_regime(problem, setup, gram, one.method, one.options)


def test_each_row_is_what_its_regime_says(comparison):
    assert {tuned.label for tuned in comparison.tuned} == set(METHODS)
    for tuned in comparison.tuned:
        regime = again(digits(), tuned)
        assert (regime.rate, regime.rounds_to(comparison.eps)) == (pytest.approx(tuned.rate, rel=1e-12), tuned.rounds)
        assert tuned.vectors == tuned.rounds * (4 if tuned.method == "scaffold" else 2)


@pytest.mark.parametrize("label", ["fedavg", "fedavgm", "fedavgm, nesterov"])
def test_no_pair_of_momentum_and_step_of_a_grid_has_a_smaller_rate_than_the_closed_form(label):
    at = algorithm1_limit(digits(), Setup(eta_local=0.5, local_steps=4))
    first = next(METHODS[label].starts(at))
    best = of_method(at, METHODS[label].method, first).rate
    steps = first["server_rate"] * np.r_[np.geomspace(0.3, 3, 9), np.linspace(0.9, 1.1, 7)]
    momenta: list[dict[str, float]] = [{}]
    if "momentum" in first:
        momenta = [
            {"momentum": float(b)}
            for b in np.r_[np.linspace(0, 0.95, 11), first["momentum"] * np.linspace(0.85, 1.15, 7)]
        ]
    changed = [first | b | {"server_rate": float(g)} for b in momenta for g in steps]
    assert min(of_method(at, METHODS[label].method, options).rate for options in changed) >= best * (1 - 1e-9)


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    seed=st.integers(0, 2**16),
    spread=st.floats(0, 3),
)
def test_no_block_diagonal_positive_matrix_conditions_better(sizes, seed, spread):
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    x = rng.standard_normal((len(owner), 8))
    problem = Problem(x, np.ones(len(x)), owner)
    h = gram.infinite(x)
    least = least_condition(problem, h)
    p = np.zeros_like(h)
    for owned in problem.members:
        factor = rng.standard_normal((len(owned), len(owned))) * np.exp(spread * rng.standard_normal())
        p[np.ix_(owned, owned)] = factor @ factor.T + 1e-3 * np.eye(len(owned))
    nu = np.sort(np.linalg.eigvals(h @ p).real)
    assert nu[-1] / nu[0] >= least * (1 - 1e-8)
    inverse = np.where(owner[:, None] == owner, h, 0)
    at_most = np.linalg.eigvals(np.linalg.solve(inverse, h)).real
    assert least * (1 - 1e-9) <= at_most.max() / at_most.min() <= len(sizes) * least * (1 + 1e-9)


def test_for_two_clients_the_bound_is_that_of_their_smallest_angle():
    problem = digits(8, 2)
    h = gram.infinite(problem.x)
    nu = np.sort(np.linalg.eigvals(np.linalg.solve(np.where(problem.owner[:, None] == problem.owner, h, 0), h)).real)
    cosine = 1 - nu[0]  # the cosine of the smallest principal angle between the clients' tangent spaces
    assert nu[-1] == pytest.approx(1 + cosine, rel=1e-9)
    assert least_condition(problem, h) == pytest.approx((1 + cosine) / (1 - cosine), rel=1e-9)


def test_the_floor_is_below_every_method(comparison):
    assert all(tuned.rounds > comparison.floor for tuned in comparison.tuned if tuned.method != "cyclic")
    assert comparison.best[0].rounds == min(tuned.rounds for tuned in comparison.tuned)
    assert json.loads(json.dumps(comparison.to_dict(), allow_nan=False))["floor"] == comparison.floor


def test_rounds_that_are_too_many_to_count_follow_from_powers(monkeypatch):
    asked = {"local_steps": (2,), "methods": ("fedavg, server rate 1", "fedavg", "scaffold"), "refine": False}
    counted = {tuned.label: tuned for tuned in fastest(digits(), eps=1e-9, **asked).tuned}
    monkeypatch.setattr(fastest_method, "MOST_ROUNDS", 32)
    for tuned in fastest(digits(), eps=1e-9, **asked).tuned:
        whole = counted[tuned.label]
        assert (tuned.rounds, whole.estimate) == (None, None)
        assert whole.rounds - 1 < tuned.estimate <= whole.rounds + 1e-6


@pytest.mark.parametrize("smallest", [1e-10, 1e-14])
def test_no_number_of_rounds_is_said_beyond_those_that_powers_reach(smallest):
    """No number of rounds is given beyond the largest one that powers of the round can determine.

    There is one client and one step of size 1. The first sample is fitted in round 1. The residual of the second sample
    falls by the factor 1 - smallest in each round.
    """
    problem = Problem(np.eye(2), np.ones(2), np.zeros(2, int))
    asked = {"local_steps": (1,), "methods": ("fedavg, server rate 1",), "eta_local": 1.0, "refine": False}
    (tuned,) = fastest(problem, np.diag([1.0, smallest]), eps=0.1, **asked).tuned
    needed = np.log(0.1 * np.sqrt(2)) / np.log1p(-smallest)
    assert tuned.rounds is None
    assert tuned.estimate == (None if needed > fastest_method.FARTHEST else pytest.approx(needed, rel=1e-4))


def test_a_row_of_a_special_case_has_the_method_of_its_options():
    """A row that is a special case names the method to which its options belong.

    FedProx takes the fewest rounds here at mu = 0, where it is FedAvg; FedAvg itself has no option mu.
    """
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    problem = Problem(np.eye(4), rng.standard_normal(4), np.arange(4) % 2)
    asked = {"local_steps": (3,), "methods": ("fedavg", "fedprox"), "refine": False}
    for tuned in fastest(problem, basis * np.geomspace(1e-7, 1, 4) @ basis.T, eps=0.002, **asked).tuned:
        assert tuned.method == METHODS[tuned.label].method and again(problem, tuned)


def test_with_a_budget_what_is_left_is_compared():
    comparison = fastest(digits(), local_steps=(2,), budget=7)
    for tuned in comparison.tuned:
        assert tuned.residual_left is not None
        ends = np.linalg.norm(again(digits(), tuned).residual(np.array([0, 7])), axis=1)
        assert tuned.residual_left == pytest.approx(ends[1] / ends[0], rel=1e-9)
    lefts = [tuned.residual_left for tuned in comparison.best if tuned.residual_left is not None]
    assert lefts == sorted(lefts)


def test_a_sample_twice_has_the_rounds_and_the_rate_of_what_can_fall():
    problem = digits(6, 2)

    same, other = (fastest(with_twice(problem, sign * problem.y[0]), local_steps=(1, 3)) for sign in (1, -1))
    for comparison in (same, other):
        assert comparison.floor is None and comparison.condition == np.inf and comparison.to_dict()["condition"] is None
        assert {tuned.label for tuned in comparison.tuned} == set(METHODS)
        for tuned in comparison.tuned:
            assert (tuned.rate is None) == (tuned.method in NO_MODES) and not (tuned.rate and tuned.rate > 1 - 1e-9)
    for tuned in same.tuned:
        assert tuned.rounds == again(with_twice(problem, problem.y[0]), tuned).rounds_to(1e-6)
    for tuned in other.tuned:
        assert (tuned.rounds, tuned.vectors, tuned.estimate) == (None, None, None)


def with_twice(problem, label):
    """Returns the problem with the first sample repeated under this label."""
    x, y = np.concatenate([problem.x, problem.x[:1]]), np.append(problem.y, label)
    return Problem(x, y, np.append(problem.owner, 0))


def test_the_rate_with_repeated_samples_of_one_client_is_that_of_the_nonzero_eigenvalues():
    """If the only client has some samples twice, the rate is given by the eigenvalues q > 0 of H.

    A round multiplies by 1 - g (1 - (1 - eta q)^K) on each of these eigenvalues. Rounding at q = 0 does not count.
    """
    problem = digits(16, 1)
    x, y = np.concatenate([problem.x, problem.x[:4]]), np.append(problem.y, problem.y[:4])
    twice = Problem(x, y, np.zeros(20, int))
    q = np.linalg.eigvalsh(gram.infinite(x))[4:]
    for tuned in fastest(twice, local_steps=(1, 2, 5), methods=("fedavg, server rate 1", "fedavg")).tuned:
        part = 1 - (1 - tuned.eta_local * q) ** tuned.local_steps
        assert tuned.rate == pytest.approx(np.abs(1 - tuned.options["server_rate"] * part).max(), rel=1e-9)


@pytest.mark.parametrize("eta_local", [0.5, 5.0, 50.0])
def test_a_sample_twice_at_steps_far_beyond_the_limit_leaves_out_methods(eta_local):
    problem = with_twice(digits(6, 2), digits(6, 2).y[0])
    comparison = fastest(problem, local_steps=(2,), eta_local=eta_local)
    assert len(comparison.best) < len(METHODS) or eta_local == 0.5
    for tuned in comparison.tuned:
        if tuned.rate is not None:
            assert tuned.rate < 1
        elif tuned.rounds is None:  # The residual falls too slowly for an answer, but it does not grow.
            left = np.linalg.norm(again(problem, tuned).residual([0, 1000, 2000]), axis=1)
            assert left[2] <= left[1] + 1e-9 <= left[0]


def test_one_client_has_condition_one():
    alone = fastest(digits(6, 1), local_steps=(1,))
    assert alone.condition == pytest.approx(1) and alone.floor == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eps": 1.0}, "eps is 1; it must lie between 0 and 1"),
        ({"local_steps": ()}, r"local_steps are \[\]"),
        ({"local_steps": (0, 1)}, r"local_steps are \[0, 1\]; there must be some, each at least 1"),
        ({"budget": 0}, "the budget of rounds is 0; it must be a positive integer"),
        ({"eta_local": -1.0}, "eta_local"),
    ],
)
def test_bad_requests_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fastest(digits(6, 2), **options)


def test_labels_along_the_largest_eigenvalue_may_take_fewer_rounds_than_the_floor():
    problem = digits()
    along = np.linalg.eigh(gram.infinite(problem.x))[1][:, -1]
    comparison = fastest(Problem(problem.x, along, problem.owner), local_steps=(1,))
    assert comparison.floor is not None
    assert any(
        tuned.rounds and tuned.rounds < comparison.floor for tuned in comparison.tuned if tuned.method != "cyclic"
    )


def test_the_gram_matrix_is_decomposed_once(monkeypatch):
    problem, seen, decompose = digits(8, 2), [], np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: seen.append(matrix) or decompose(matrix))
    fastest(problem, local_steps=(2,), eta_local=0.1)
    h = gram.infinite(problem.x)
    assert sum(matrix.shape == h.shape and np.allclose(matrix, h, rtol=1e-12) for matrix in seen) == 1


def test_some_methods_at_their_closed_forms_are_no_faster_than_refined_ones():
    problem = data.sphere(n=6, d=6)
    rough = fastest(problem, local_steps=(1,), methods=("fedavgm",), refine=False)
    (fine,) = fastest(problem, local_steps=(1,), methods=("fedavgm",)).best
    (best,) = rough.best
    assert best.label == "fedavgm" and fine.rounds <= best.rounds
    assert again(problem, best).rounds_to(rough.eps) == best.rounds
    with pytest.raises(ValueError, match="there is no method 'sgd'; they are 'fedavg, server rate 1', 'fedavg'"):
        fastest(problem, methods=("sgd",))


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"budget": 12}, {"eps": 0.1}])
def test_steps_from_products_alone_are_as_good_as_those_from_matrices(how):
    problem = data.BUILT_IN["digits"](n=60, clients=4, seed=1)
    whole = fastest(problem, local_steps=(4,), **how)
    tiled = fastest(problem, local_steps=(4,), matrix_free="float64", **how)
    assert {tuned.label for tuned in tiled.tuned} == set(METHODS)
    assert tiled.tiles == "float64" and tiled.floor is None and whole.tiles is None
    _as_good(problem, tiled, whole, how, 1.15)


@pytest.mark.slow
def test_steps_of_many_samples_are_searched_for_on_some(monkeypatch):
    problem = data.BUILT_IN["digits"](n=60, clients=4, seed=1)
    asked = {"local_steps": (3,), "eps": 0.1, "methods": ("fedavg", "scaffold", "feddyn", "cyclic", "fedavgm")}
    whole, sizes, told = fastest(problem, **asked), [], []
    monkeypatch.setattr(fastest_method, "WHOLE", 59)
    monkeypatch.setattr(fastest_method, "SOME", 32)
    monkeypatch.setattr(rounds_between, "POWERS_UP_TO", 60)
    value = Search.value
    monkeypatch.setattr(Search, "value", lambda *given: sizes.append(given[0].base.problem.n) or value(*given))
    some = fastest(problem, **asked, answered=told.append)
    assert sorted(told, key=fastest_method._order) == list(some.best) and len(told) == len(asked["methods"])
    assert 0 < 2 * sizes.count(60) < sizes.count(32) and set(sizes) == {32, 60}
    of = {tuned.label: tuned for tuned in whole.best}
    for tuned in some.best:
        regime = again(problem, tuned)
        assert tuned.rate == pytest.approx(regime.rate) and tuned.rate < 1
        assert tuned.rounds == regime.rounds_to(0.1) <= 1.3 * of[tuned.label].rounds + 1


@pytest.mark.slow
def test_steps_from_some_samples_are_tuned_on_all(monkeypatch):
    problem = data.BUILT_IN["digits"](n=120, clients=10, partition="dirichlet:0.5", seed=1)
    asked = {"local_steps": (4,), "methods": NO_MODES, "budget": 12, "matrix_free": "float64"}
    whole = fastest(problem, **asked)
    monkeypatch.setattr(fastest_method, "SAMPLED", 40)
    _as_good(problem, fastest(problem, **asked), whole, asked, 1.15)


def _as_good(problem, tiled, whole, how, ratio):
    """Asserts that each row has the numbers that its method's regime gives.

    A row must not need many more rounds than the best setting of another search.
    """
    best = {tuned.label: tuned for tuned in whole.best}
    assert {tuned.label for tuned in tiled.best} == set(best)
    for tuned in tiled.best:
        regime = again(problem, tuned)
        if "budget" in how:
            ends = np.linalg.norm(regime.residual([0, how["budget"]]), axis=1)
            assert abs(tuned.residual_left - ends[1] / ends[0]) <= (tuned.residual_error or 1e-9)
            assert tuned.residual_left <= ratio * best[tuned.label].residual_left
        else:
            assert tuned.rounds == regime.rounds_to(how["eps"]) <= ratio * best[tuned.label].rounds + 1
        assert tuned.rate is None


def test_some_samples_have_every_client_by_its_share():
    problem = data.BUILT_IN["digits"](n=300, clients=12, partition="dirichlet:0.2", seed=1)
    some = fastest_method._some(problem, fastest_method._rows(problem, 60))
    sizes, drawn = np.bincount(problem.owner), np.bincount(some.owner)
    assert (drawn == np.maximum(1, np.round(sizes / 5))).all()
    rows = {(*x, y, owner) for x, y, owner in zip(problem.x.tolist(), problem.y, problem.owner, strict=True)}
    assert {(*x, y, owner) for x, y, owner in zip(some.x.tolist(), some.y, some.owner, strict=True)} <= rows


@pytest.mark.parametrize(("method", "option", "falling", "growing"), [
    ("scaffold", "server_rate", 1.0, 40.0), ("feddyn", "alpha", 1.0, 5.0), ("cyclic", "server_rate", 1.0, 9.0),
])  # fmt: skip
def test_a_run_shows_whether_the_residual_falls_on(method, option, falling, growing):
    whole, tiled = (base_regime(digits(), Setup(eta_local=0.4, local_steps=3), None, how) for how in (False, "float64"))
    for value, falls in ((falling, True), (growing, False)):
        assert (of_method(whole, method, {option: value}).rate < 1) == falls
        assert falls_on(of_method(tiled, method, {option: value}), 20) == falls


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 2**16),
    momentum=st.floats(0, 0.9),
    rate=st.floats(0.1, 3),
    nesterov=st.booleans(),
    outputs=st.integers(1, 3),
)
def test_the_krylov_space_has_every_server_s_first_rounds(seed, momentum, rate, nesterov, outputs):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 90))
    owner = np.unique(rng.integers(0, 4, n), return_inverse=True)[1]
    problem = Problem(rng.standard_normal((n, 5)), rng.standard_normal((n, outputs)), owner)
    options = {"momentum": momentum, "server_rate": rate, "nesterov": nesterov}
    setup = Setup(eta_local=0.05 / n, local_steps=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = kernel_regime(problem, setup, None, "fedavgm", options)
        tiled = kernel_regime(problem, setup, None, "fedavgm", options, matrix_free="float64")
    for rounds in (1, 2, 7, 39):
        ends = np.linalg.norm(whole.residual([0, rounds]).reshape(2, -1), axis=1)
        assert left_after(tiled, rounds) == pytest.approx(ends[1] / ends[0], rel=1e-8)


def test_with_tiles_no_rounds_are_said_where_part_of_the_residual_stays():
    rng = np.random.default_rng(0)
    # There are only six features, so 18 directions of the residual never fall.
    x, w = rng.standard_normal((24, 8)), rng.standard_normal((8, 6))
    kernel = gram.Features(lambda z: np.maximum(z @ w, 0), 6)
    problem = Problem(x, np.sign(rng.standard_normal(24)), np.arange(24) % 3)
    asked = {"local_steps": (1, 3), "eps": 0.01, "refine": False, "matrix_free": True}
    comparison = fastest(problem, kernel, methods=("fedavg", "scaffold", "fedavgm"), **asked)
    assert {tuned.label for tuned in comparison.best} == {"fedavg", "scaffold", "fedavgm"}
    for tuned in comparison.tuned:
        assert (tuned.rounds, tuned.estimate, tuned.vectors) == (None, None, None)
        left = np.linalg.norm(again(problem, tuned, gram=kernel).residual(10**6))
        assert left > 0.01 * np.linalg.norm(problem.y)


def test_a_local_step_beyond_the_clients_limit_is_refused_with_tiles():
    with pytest.raises(ValueError, match=r"eta_local is 99; with tiles it must be below 2 / max_c"):
        fastest(digits(), eta_local=99.0, matrix_free=True)
