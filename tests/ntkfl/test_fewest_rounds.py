"""Tests of the search for the fewest rounds after which the residual is small enough.

`rounds_between` returns a real number of rounds. Rounded up, this number equals the number that `rounds_to` counts, if
that count is at most 64, and otherwise is no smaller. A dense grid of steps is hardly better than the steps that the
search finds.
"""

from itertools import islice

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from plain_grid import Grid, random_problem

from ntkfl import kernel_regime
from ntkfl.data import digits, wine
from ntkfl.exact_dynamics import of_method
from ntkfl.fastest_method import fastest
from ntkfl.fewest_rounds import METHODS
from ntkfl.gram import infinite
from ntkfl.limit import rounds_between as counting
from ntkfl.limit.infinite_width import algorithm1_limit
from ntkfl.limit.rounds_between import NEVER, left_after, rounds_between
from ntkfl.problem import Problem, Setup

CASES = [
    ("fedavg", {"server_rate": 1.3}),
    ("fedprox", {"mu": 0.2, "server_rate": 1.0}),
    ("scaffold", {"server_rate": 1.2}),
    ("feddyn", {"alpha": 0.5}),
    ("cyclic", {"server_rate": 0.9}),
    ("fedavgm", {"momentum": 0.6, "server_rate": 1.0}),
]


EASY = (2, 3, 5, 8, 10)  # seeds of problems on which every method needs few rounds


def of_share(problem, h, steps, share, method, options):
    base = algorithm1_limit(problem, Setup(), h)
    eta = float(share / base.blocks.clients.values.max())
    return of_method(base.at(Setup(eta_local=eta, local_steps=steps)), method, options)


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(("method", "options"), CASES)
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**16), share=st.floats(0.1, 1.5), eps=st.sampled_from([0.3, 1e-2, 1e-6]))
@example(57127, 0.5, 0.3)  # After one round FedDyn leaves nothing but rounding.
def test_the_whole_number_above_is_the_count(method, options, seed, share, eps):
    problem, h, steps = random_problem(seed)
    regime = of_share(problem, h, steps, share, method, options)
    between = rounds_between(regime, eps, 2**14)
    if regime.step_warning is None and between <= 2**13:
        counted = regime.rounds_to(eps)
        assert counted == np.ceil(between) if counted <= 64 else counted <= np.ceil(between)
        sizes = np.linalg.norm(regime.residual(np.array([0, counted - 1, counted])), axis=1)
        if counted == np.ceil(between):
            part = np.log(sizes[1] / (eps * sizes[0])) / np.log(sizes[1] / sizes[2])
            rounding = part * np.log1p(1e-14 * sizes[0] / sizes[2]) / np.log(sizes[1] / sizes[2])
            assert between - counted + 1 == pytest.approx(part, abs=1e-5 + rounding)


def test_a_large_state_is_counted_in_a_krylov_space_to_the_same(monkeypatch):
    """For a large state the rounds are counted in a Krylov space, with the same result.

    With as many vectors as the state has rows, the Krylov space is the whole space.
    """
    problem, h, steps = random_problem(5)
    for method, options in CASES:
        regime = of_share(problem, h, steps, 0.5, method, options)
        for eps in (0.5, 1e-2):
            most, left = rounds_between(regime, eps, 2**14), left_after(regime, 9)
            with monkeypatch.context() as patched:
                patched.setattr(counting, "POWERS_UP_TO", 0)
                assert rounds_between(regime, eps, 2**14) == pytest.approx(most, rel=1e-6)
                assert left_after(regime, 9) == pytest.approx(left, rel=1e-8)


@pytest.mark.parametrize(("method", "options"), [case for case in CASES if case[0] in ("scaffold", "feddyn", "cyclic")])
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_krylov_space_of_few_rounds_knows_many(monkeypatch, method, options, outputs):
    """A Krylov space of few rounds determines many rounds.

    The rounds that span the space are exact, and several times as many are right within a hundredth. A smaller space is
    inaccurate.
    """
    problem = digits(n=120, clients=4, target="sign" if outputs == 1 else "one-hot")
    problem = Problem(problem.x, problem.y if outputs == 1 else problem.y[:, :outputs], problem.owner)
    regime = of_share(problem, infinite(problem.x), 3, 0.5, method, options)
    most = rounds_between(regime, 1e-6, 2**14)
    assert most > 160
    off = []
    for space in (80, 4):
        with monkeypatch.context() as patched:
            patched.setattr(counting, "POWERS_UP_TO", 0)
            patched.setattr(counting, "SPACE", space)
            assert left_after(regime, space - 1) == pytest.approx(_left(regime, space - 1), rel=1e-7)
            off.append(abs(rounds_between(regime, 1e-6, 2**14) / most - 1))
    assert off[0] < 0.01 < off[1]


def _left(regime, rounds):
    ends = np.linalg.norm(regime.residual(np.array([0, rounds])).reshape(2, -1), axis=1)
    return ends[1] / ends[0]


def test_what_is_not_reached_is_more_than_was_looked_at_and_what_grows_is_never():
    problem, h, steps = random_problem(5)
    slow = of_share(problem, h, steps, 0.01, "fedavg", {"server_rate": 0.01})
    assert 64 <= rounds_between(slow, 1e-6, 64) < NEVER
    assert rounds_between(of_share(problem, h, steps, 0.5, "fedavg", {"server_rate": 99.0}), 1e-6, 2**14) == NEVER
    nothing = Problem(problem.x, 0 * problem.y, problem.owner)
    still = of_share(nothing, h, steps, 0.5, "fedavg", {})
    assert rounds_between(still, 0.1, 100) == left_after(still, 3) == 0


def test_what_is_left_is_that_of_the_rounds():
    problem, h, steps = random_problem(8)
    for method, options in CASES:
        regime = of_share(problem, h, steps, 0.5, method, options)
        ends = np.linalg.norm(regime.residual(np.array([0, 13])), axis=1)
        assert left_after(regime, 13) == pytest.approx(ends[1] / ends[0], rel=1e-9)


@pytest.mark.parametrize("label", METHODS)
@pytest.mark.parametrize("seed", EASY[:3])
def test_the_plain_grid_counts_as_the_regimes_do(label, seed):
    problem, h, steps = random_problem(seed)
    arrived = Grid(label, problem, h, steps).fewest(0.3, 400)
    assert arrived is not None
    rounds, (eta, pull, rate, momentum) = arrived
    every = {"server_rate": rate, "momentum": momentum, "mu": pull, "alpha": pull, "nesterov": True}
    names = METHODS[label].names or ("server_rate",)
    chosen = {name: every[name] for name in (*names, *(("nesterov",) if "nesterov" in label else ()))}
    regime = kernel_regime(problem, Setup(eta_local=eta, local_steps=steps), h, METHODS[label].method, chosen)
    assert regime.rounds_to(0.3) == rounds


@pytest.mark.parametrize("seed", [*EASY[:2], *(pytest.param(seed, marks=pytest.mark.slow) for seed in EASY[2:])])
@pytest.mark.parametrize("eta_local", [pytest.param(None, marks=pytest.mark.slow), 0.3])
def test_a_method_is_never_slower_than_what_it_contains(seed, eta_local):
    problem, h, steps = random_problem(seed)
    for budget in (None, 9):
        tuned = fastest(problem, h, local_steps=(steps,), eta_local=eta_local, budget=budget, eps=1e-3).tuned
        of = {
            method.label: method.rounds or 10**6 if method.residual_left is None else method.residual_left
            for method in tuned
        }
        for label, tunable in METHODS.items():
            if tunable.special in of:
                assert of[label] <= of[tunable.special]


# The residuals of these methods swing, and may fall below eps in single rounds.
SWINGING = "feddyn", "fedavgm", "fedavgm, nesterov"
FAR = 400  # the most rounds for which a grid is searched


def behind_a_grid(seed, labels):
    """Yields the label, the tuned rounds and the grid's fewest rounds of each method for which the grid is better."""
    problem, h, steps = random_problem(seed)
    for method in fastest(problem, h, local_steps=(steps,), methods=tuple(labels)).tuned:
        arrived = Grid(method.label, problem, h, steps).fewest(1e-6, min(method.rounds or FAR, FAR))
        if arrived is not None:
            yield method.label, method.rounds or float("inf"), arrived[0]


@pytest.mark.parametrize("seed", [5, pytest.param(8, marks=pytest.mark.slow)])
def test_a_dense_grid_is_hardly_better(seed):
    for label, tuned, rounds in behind_a_grid(seed, METHODS):
        assert tuned <= 1.15 * rounds + 1, label


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(14), 31, 37])  # Seeds 4, 31 and 37 would expose a search from too few starts.
def test_a_dense_grid_is_hardly_better_where_nothing_swings(seed):
    for label, tuned, rounds in behind_a_grid(seed, set(METHODS) - set(SWINGING)):
        assert tuned <= (1.25 if label == "scaffold" else 1.15) * rounds + 1, label


@pytest.mark.parametrize("seed", [0, 1])
def test_at_one_local_step_averaging_is_no_slower_than_a_scan_of_its_product(seed):
    """With one local step averaging needs no more rounds than a scan over the steps finds.

    Only the product of the two step sizes counts then. The test scans this product with the eigenvalues of
    W^(1/2) H W^(1/2), where W has the server's weights.
    """
    problem = wine(n=50, seed=seed)
    h = infinite(problem.x)
    roots = np.sqrt(np.bincount(problem.owner)[problem.owner] / problem.n)  # the server's weights n_k / n
    eigenvalues, vectors = np.linalg.eigh(roots[:, None] * h * roots)
    labels = vectors.T @ (roots * problem.y)

    def arrived(step, t):
        left = vectors @ ((1 - step * eigenvalues) ** t * labels) / roots
        return np.linalg.norm(left) <= 1e-6 * np.linalg.norm(problem.y)

    steps = np.linspace(1, 1.999, 400) / eigenvalues[-1]
    (tuned,) = fastest(problem, h, local_steps=(1,), methods=("fedavg",)).tuned
    assert not any(arrived(step, tuned.rounds - 1) for step in steps)
    assert any(arrived(step, tuned.rounds + 5) for step in steps)  # The scan contains nearly the same step.


def test_modes_go_as_the_rounds_do():
    """The sizes of residuals by modes are those of the rounds.

    The cases have several outputs, Nesterov's momentum, and a singular kernel of two equal samples.
    """
    problem, h, steps = random_problem(8)
    outputs = np.stack([problem.y, np.cos(np.arange(problem.n))], axis=1)
    rows = np.r_[0, 0, 2 : problem.n]
    for known, kernel in ((problem, h), (Problem(problem.x, outputs, problem.owner), h[np.ix_(rows, rows)])):
        for method, options in [*CASES, ("fedavgm", {"momentum": 0.5, "nesterov": True})]:
            regime = of_share(known, kernel, steps, 0.5, method, options)
            if method in ("scaffold", "feddyn", "cyclic"):
                assert regime.modes is None
            else:
                initial = known.y.reshape(known.n, -1)
                seen = list(islice(regime.modes.sizes(initial), 70))
                expected = np.linalg.norm(regime.residual(np.arange(1, 71)).reshape(70, -1), axis=1)
                np.testing.assert_allclose(seen, expected, rtol=1e-9, atol=1e-12)


def test_settings_that_differ_at_the_server_share_one_decomposition(monkeypatch):
    """Settings that differ at the server only share one decomposition of H.

    The settings have different server rates and momenta at one K and eta_local. Each has the same result as alone.
    """
    problem, h, _ = random_problem(3)
    base = algorithm1_limit(problem, Setup(), h)
    setup = Setup(eta_local=0.5 / base.blocks.clients.values.max(), local_steps=3)
    tried = [("fedavg", {"server_rate": rate}) for rate in (0.7, 1.1, 1.3)]
    tried += [("fedavgm", {"momentum": momentum, "server_rate": 0.9}) for momentum in (0.3, 0.6)]
    alone = [of_method(base.at(setup), *setting) for setting in tried]
    vars(base).update({"_eigen": base._eigen, "_responses": []})
    together = [of_method(base.at(setup), *setting) for setting in tried]
    expected = [(regime.response_eigenvalues, rounds_between(regime, 1e-3, 2**14)) for regime in alone]
    calls, decompose = [], np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: calls.append(matrix.shape) or decompose(matrix))
    for regime, (nu, rounds) in zip(together, expected, strict=True):
        np.testing.assert_allclose(regime.response_eigenvalues, nu, rtol=1e-12, atol=1e-12 * nu[-1])
        assert rounds_between(regime, 1e-3, 2**14) == pytest.approx(rounds, rel=1e-9)
    assert calls.count((problem.n, problem.n)) == 1
    other = of_method(base.at(Setup(eta_local=setup.eta_local, local_steps=2)), *tried[0])
    assert not np.allclose(
        other.response_eigenvalues, together[0].response_eigenvalues, rtol=1e-6
    )  # With another number of local steps the clients respond differently, and the eigenvalues differ.
