"""Tests of SCAFFOLD and FedDyn with drawn clients.

The moments are compared with every sequence of cohorts, each trained on the weights. M is the mean map of a round's
state, S a matrix of second moments of the state, and T the map of S in a round.
"""

import tracemalloc
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from linear_methods import ragged

from ntkfl import Setup, gram, kernel_regime, random_rounds
from ntkfl.limit.mean_square import RealBasis, StateMoments

quietly = pytest.mark.filterwarnings("ignore::ntkfl.exact_dynamics.UnstableSteps")
METHODS = (
    ("scaffold", {"server_rate": 0.9}),
    ("scaffold", {"option": "I"}),
    ("feddyn", {"alpha": 1.5}),
)
EACH = pytest.mark.parametrize(("method", "options"), METHODS, ids=["scaffold-II", "scaffold-I", "feddyn"])


class Weights:
    """Trains a model f = F w by the papers' formulas, with features F that have this Gram matrix."""

    def __init__(self, problem, setup):
        values, basis = np.linalg.eigh(gram.infinite(problem.x))
        self.features, self.problem, self.setup = basis * np.sqrt(np.maximum(values, 0)), problem, setup
        self.zero = np.zeros(problem.n)

    def gradient(self, c, w):
        own = self.problem.members[c]
        return self.features[own].T @ (self.features[own] @ w - self.problem.y[own])

    def local(self, c, w, extra):
        v = w
        for _ in range(self.setup.local_steps):
            v = v - self.setup.eta_local * (self.gradient(c, v) + extra(v))
        return v

    def scaffold(self, state, cohort, option="II", server_rate=1.0):
        w, own, whole = state
        own, moves, changes = list(own), [], []
        for c in cohort:
            end = self.local(c, w, lambda v, c=c: whole - own[c])
            met = own[c] - whole + (w - end) / (self.setup.local_steps * self.setup.eta_local)
            new = self.gradient(c, w) if option == "I" else met
            changes.append(new - own[c])
            moves.append(end - w)
            own[c] = new
        return w + server_rate * sum(moves) / len(cohort), own, whole + sum(changes) / len(own)

    def feddyn(self, state, cohort, alpha):
        w, own, whole = state
        own, ends = list(own), []
        for c in cohort:
            end = self.local(c, w, lambda v, c=c: alpha * (v - w) - own[c])
            own[c] = own[c] - alpha * (end - w)
            ends.append(end)
        whole = whole - alpha * sum(end - w for end in ends) / len(own)
        return sum(ends) / len(ends) - whole / alpha, own, whole

    def outputs(self, method, options, cohorts):
        """Returns f after each sequence of rounds, (sequences, n); all sequences are equally likely.

        `cohorts` has the possible choices of each round.
        """
        clients = self.problem.n_clients
        states = [(self.zero, [self.zero] * clients, self.zero)]
        for choices in cohorts:
            states = [getattr(self, method)(state, choice, **options) for state in states for choice in choices]
        return np.array([self.features @ w for w, *_ in states])


class Batched(Weights):
    """`Weights` on batches of one sample; a choice is a cohort with the samples that each of its clients takes."""

    taken: dict

    def local(self, c, w, extra):
        v, own = w, self.problem.members[c]
        for sample in self.taken[c]:
            row = self.features[own[sample]]
            gradient = len(own) * row * (row @ v - self.problem.y[own[sample]])
            v = v - self.setup.eta_local * (gradient + extra(v))
        return v

    def scaffold(self, state, choice, **options):
        self.taken = dict(choice)
        return super().scaffold(state, tuple(self.taken), **options)

    def feddyn(self, state, choice, **options):
        self.taken = dict(choice)
        return super().feddyn(state, tuple(self.taken), **options)

    def choices(self, size):
        """Yields the choices of a cohort of that size.

        The choices are equally likely if all clients have equally many samples, or if every cohort has all clients.
        """
        samples = [range(len(own)) for own in self.problem.members]
        for cohort in combinations(range(len(samples)), size):
            steps = [product(samples[c], repeat=self.setup.local_steps) for c in cohort]
            yield from (tuple(zip(cohort, taken, strict=True)) for taken in product(*steps))


@EACH
@pytest.mark.parametrize(("sizes", "size", "steps"), [((2, 2), 1, 2), ((2, 1), 2, 2), ((3,), 1, 2), ((2, 2), 1, 3)])
@quietly
def test_every_sequence_of_cohorts_and_batches_adds_up_to_it(method, options, sizes, size, steps):
    """The mean over every sequence of cohorts and batches equals the computed moments.

    FedDyn needs a case with three local steps. In the first step the memory's correction moves a client, and in the
    second step the pull to the start shortens this movement. Only the third gradient is taken after that.
    """
    problem, setup = ragged(sizes, seed=4), Setup(eta_local=0.2, local_steps=steps)
    regime = random_rounds(problem, setup, None, method, options, participation=size / len(sizes), batch_size=1)
    judge = Batched(problem, setup)
    for rounds in range(4 if steps == 2 else 3):
        ends = judge.outputs(method, options, [list(judge.choices(size))] * rounds)
        scale = max(1.0, np.abs(ends).max() ** 2)
        assert np.abs(regime.outputs(rounds) - ends.mean(axis=0)).max() <= 1e-11 * scale
        assert np.abs(regime.covariance(rounds) - np.cov(ends.T, bias=True)).max() <= 1e-11 * scale
        assert rounds == 0 or regime.deviation(rounds).max() > 1e-3
        squares = ((problem.y - ends) ** 2).sum(axis=1)
        expected = pytest.approx(squares.var(), rel=1e-9, abs=1e-13 * squares.mean() ** 2)
        assert regime.square_variance(rounds) == expected
    sampled = regime.sampled(rounds, runs=3000)
    exact = regime.root_mean_square(rounds) ** 2
    assert abs(sampled.mean_square.value[0] - exact) <= 4 / 3 * sampled.mean_square.error[0] <= 0.2 * exact
    spread = exact - (regime.residual(rounds) ** 2).sum()
    assert sampled.mean_square.error[0] <= 0.3 * spread


@EACH
@pytest.mark.parametrize("turns", [None, [(0,), (1, 2)]], ids=["drawn", "in turn"])
@quietly
def test_every_sequence_adds_up_to_it_where_steps_and_clients_change_by_round(method, options, turns):
    problem, setup = ragged((1, 2, 1), seed=4), Setup(eta_local=0.4, local_steps=2)
    rates = {"eta_local": (0.3, 0.1), "eta_global": (1.2, 0.5) if method == "scaffold" else (1.0,)}
    options = {k: v for k, v in options.items() if k != "server_rate"}
    clients = {"participation": 0.67} if turns is None else {"cohorts": turns}
    regime = random_rounds(problem, setup, None, method, options, batch_size=1, **rates, **clients)
    judge, states = Batched(problem, setup), [(np.zeros(problem.n), [np.zeros(problem.n)] * 3, np.zeros(problem.n))]
    for t in range(3):
        judge.setup = replace(setup, eta_local=rates["eta_local"][min(t, 1)])
        now = options | ({"server_rate": rates["eta_global"][min(t, 1)]} if method == "scaffold" else {})
        choices = [c for c in judge.choices(2) if turns is None]
        if turns is not None:
            cohort = turns[t % 2]
            taken = product(*(product(range(len(problem.members[c])), repeat=2) for c in cohort))
            choices = [tuple(zip(cohort, samples, strict=True)) for samples in taken]
        chances = np.array([1 / np.prod([len(problem.members[c]) ** 2 for c, _ in choice]) for choice in choices])
        states = [
            (chance * p, getattr(judge, method)(state, choice, **now))
            for p, state in (states if t else [(1.0, states[0])])
            for chance, choice in zip(chances / chances.sum(), choices, strict=True)
        ]
        weights, ends = np.array([p for p, _ in states]), np.array([judge.features @ s[0] for _, s in states])
        assert np.abs(regime.outputs(t + 1) - weights @ ends).max() <= 1e-12
        assert np.abs(regime.covariance(t + 1) - np.cov(ends.T, bias=True, aweights=weights)).max() <= 1e-12


@EACH
@settings(deadline=None, max_examples=4)
@given(
    sizes=st.lists(st.integers(1, 2), min_size=1, max_size=3),
    data=st.data(),
    eta=st.floats(0.05, 0.5),
    seed=st.integers(0, 2**16),
)
@quietly
def test_every_sequence_of_cohorts_adds_up_to_it(method, options, sizes, data, eta, seed):
    size = data.draw(st.integers(1, len(sizes)))
    problem, setup = ragged(sizes, seed=seed, repeated=seed % 3 == 0), Setup(eta_local=eta, local_steps=2)
    regime = random_rounds(problem, setup, None, method, options, participation=size / len(sizes))
    every = list(combinations(range(len(sizes)), size))
    for rounds in range(4):
        ends = Weights(problem, setup).outputs(method, options, [every] * rounds)
        scale = max(1.0, np.abs(ends).max() ** 2)
        assert np.abs(regime.outputs(rounds) - ends.mean(axis=0)).max() <= 1e-11 * scale
        assert np.abs(regime.covariance(rounds) - np.cov(ends.T, bias=True)).max() <= 1e-11 * scale
        square = ((problem.y - ends) ** 2).sum(axis=1).mean()
        assert regime.root_mean_square(rounds) ** 2 == pytest.approx(square, rel=1e-10, abs=1e-11 * scale)


@EACH
@quietly
def test_the_rate_is_that_at_which_the_mean_square_falls(method, options):
    problem = ragged((2, 1, 2), seed=3)
    regime = random_rounds(problem, Setup(eta_local=0.4, local_steps=2), None, method, options, participation=0.67)
    late = regime.root_mean_square(np.array([300, 301])) if regime.rate > 0.9 else regime.root_mean_square([60, 61])
    assert late[1] / late[0] == pytest.approx(regime.rate, rel=1e-3)
    assert regime.stable == (regime.rate < 1) and (regime.step_warning is None) == regime.stable
    assert regime.stationary_mean_square() == (0.0 if regime.stable else float("inf"))


@EACH
def test_with_all_clients_it_is_the_kernel_regime(method, options):
    problem, setup = ragged((2, 3, 1), seed=5), Setup(eta_local=0.3, local_steps=3)
    regime, known = (
        random_rounds(problem, setup, None, method, options),
        kernel_regime(problem, setup, None, method, options),
    )
    rounds = np.arange(6)
    assert np.abs(regime.outputs(rounds) - known.outputs(rounds)).max() < 1e-13
    assert not regime.covariance(5).any()
    assert regime.rate == pytest.approx(known.rate, rel=1e-6)


@quietly
def test_larger_problems_have_the_rate_at_which_noise_of_the_draws_keeps_up_with_the_fall():
    """In larger problems, the rate is the rate at which what the noise of the draws adds makes up for the decrease.

    The map of second moments is T1 + T2: T1 is S -> M S M', and T2 is what the noise of the draws adds. The spectral
    radius of T1 + T2 is the square of the rate. It is the l at which (l - T1)^-1 T2 has the spectral radius 1. T1 is
    diagonal in the eigenvectors of M.
    """
    regime = random_rounds(ragged((4,) * 4, d=24, seed=1), Setup(eta_local=0.5), None, "scaffold", participation=0.5)
    moments = regime._moments_of_samples
    values, basis = np.linalg.eig(moments.mean)
    back, second = np.linalg.inv(basis), np.eye(len(values))
    for _ in range(400):
        level = (basis @ ((back @ second @ back.T) / (regime.rate**2 - np.outer(values, values))) @ basis.T).real
        following = moments.added((level + level.T) / 2)
        gain, second = np.trace(following) / np.trace(second), following / np.trace(following)
    assert gain == pytest.approx(1, abs=1e-3)


def test_predictions_at_the_samples_have_the_covariance_of_the_outputs():
    problem = ragged((2, 1, 2), seed=3)
    regime = random_rounds(problem, Setup(eta_local=0.4), None, "scaffold", participation=0.67)
    assert np.abs(regime.prediction_covariance(problem.x, 4) - regime.covariance(4)).max() < 1e-13


class Noisy(Weights):
    """`Weights` with noise on the mean of the displacements; a choice is a cohort and a noise."""

    def scaffold(self, state, choice, option="II", server_rate=1.0):
        cohort, noise = choice
        w, own, whole = super().scaffold(state, cohort, option, server_rate)
        return w + server_rate * noise, own, whole


@pytest.mark.parametrize("options", [{"server_rate": 0.9}, {"option": "I"}], ids=["II", "I"])
@quietly
def test_noise_on_the_mean_adds_up_to_it(options):
    """Noise on the mean gives the computed moments.

    The noise is +-sqrt(n) s along one axis, which has mean 0 and the covariance s^2 I.
    """
    problem, setup, s = ragged((1, 2), seed=4), Setup(eta_local=0.4, local_steps=2), 0.3
    drawn = {"participation": 0.5, "noise": s}
    regime = random_rounds(problem, setup, None, "scaffold", options, **drawn)
    noises = s * problem.n**0.5 * np.concatenate([np.eye(problem.n), -np.eye(problem.n)])
    choices = list(product([(0,), (1,)], noises))
    for rounds in range(4):
        ends = Noisy(problem, setup).outputs("scaffold", options, [choices] * rounds)
        assert np.abs(regime.outputs(rounds) - ends.mean(axis=0)).max() <= 1e-12
        assert np.abs(regime.covariance(rounds) - np.cov(ends.T, bias=True)).max() <= 1e-12
    assert np.abs(regime.prediction_covariance(problem.x, 3) - regime.covariance(3)).max() < 1e-13
    sampled, exact = regime.sampled(3, runs=4000), regime.root_mean_square(3) ** 2
    assert abs(sampled.mean_square.value[0] - exact) <= 4 / 3 * sampled.mean_square.error[0] <= 0.1 * exact
    estimate = sampled.square_variance
    assert abs(estimate.value[0] - regime.square_variance(3)) <= 4 / 3 * estimate.error[0]


@pytest.mark.parametrize("drawn", [{"participation": 0.67}, {"batch_size": 1}, {"cohorts": [(0,), (1, 2)]}])
@quietly
def test_noise_leaves_what_late_rounds_have(drawn):
    problem = ragged((2, 1, 2), d=12, seed=3)
    problem = replace(problem, y=np.stack([problem.y, problem.y**2], axis=1))
    regime = random_rounds(problem, Setup(eta_local=0.3, local_steps=2), None, "scaffold", noise=0.1, **drawn)
    late = regime.root_mean_square([900, 901]) ** 2
    assert regime.stationary_mean_square() == pytest.approx(late.mean(), rel=1e-6)
    assert late.min() > 1e-3


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("drawn", [{"participation": 0.67}, {"batch_size": 1}, {"cohorts": [(0,), (1, 2)]}, {}])
def test_noise_that_the_server_sums_up_grows_by_as_much_in_every_late_round(drawn):
    problem = ragged((2, 1, 2), d=12, seed=3)
    setup, options = Setup(eta_local=0.3, local_steps=2), {"alpha": 1.0}
    regime = random_rounds(problem, setup, None, "feddyn", options, noise=0.1, **drawn)
    late = np.diff(regime.root_mean_square([600, 800, 1000]) ** 2)
    assert late[0] > 0.01 and late[1] == pytest.approx(late[0], rel=1e-6)
    assert regime.stationary_mean_square() == float("inf")
    without = random_rounds(problem, setup, None, "feddyn", options, **drawn)
    assert regime.rate == without.rate < 1 and regime.stable
    assert np.abs(regime.prediction_covariance(problem.x, 3) - regime.covariance(3)).max() < 1e-12
    sampled, exact = regime.sampled(3, runs=4000), regime.root_mean_square(3) ** 2
    assert abs(sampled.mean_square.value[0] - exact) <= 4 / 3 * sampled.mean_square.error[0] <= 0.1 * exact


def test_many_orders_of_cohorts_are_told_apart():
    """`Weights` depends on the order of cohorts, so cohorts in another order end elsewhere."""
    problem, setup = ragged((1, 2, 1), seed=2), Setup(eta_local=0.4, local_steps=2)
    ends = Weights(problem, setup).outputs("scaffold", {}, [[(0,), (1,), (2,)]] * 2)
    assert all(np.abs(ends[a] - ends[b]).max() > 1e-6 for a, b in product(range(9), repeat=2) if a < b)


@pytest.mark.parametrize("drawn", [{"participation": 0.5}, {"participation": 0.5, "batch_size": 2}])
@quietly
def test_state_and_modes_have_one_rate_and_one_limit(drawn):
    """FedAvgM's moments from the general map of states equal those from its modes.

    The rate lies between its proved bounds.
    """
    problem, options = ragged((4,) * 4, d=24, seed=1), {"momentum": 0.4}
    regime = random_rounds(problem, Setup(eta_local=0.4), None, "fedavgm", options, noise=0.1, **drawn)
    state = StateMoments(regime._map, lambda second: regime._following(second) - shaken(regime, second), rests=False)
    assert state.rate == pytest.approx(regime.rate, rel=1e-9)
    assert state.rate_bounds[0] <= regime.rate * (1 + 1e-12) and regime.rate <= state.rate_bounds[1] * (1 + 1e-12)
    rest = np.trace(state.resting(regime._added)[: problem.n, : problem.n])
    assert rest == pytest.approx(regime.stationary_mean_square(), rel=1e-8)


def shaken(regime, second):
    return regime._map @ second @ regime._map.T


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_mean_without_eigenvectors_has_its_rate_too(share):
    """If the mean map M has no basis of eigenvectors, the rate is found too.

    M is a Jordan chain with the one eigenvalue .8. A round maps second moments S to M S M' + share S, so the radius is
    known to be .64 + share.
    """
    mean = 0.8 * np.eye(14) + np.diag(np.full(13, 0.02), 1)
    state = StateMoments(mean, lambda second: share * second, rests=False)
    assert RealBasis.of(mean) is None
    # Computed eigenvalues of a Jordan chain are inexact.
    assert state.rate == pytest.approx((0.64 + share) ** 0.5, rel=1e-2)
    if share:
        assert np.allclose(state.resting(np.eye(14)), state.following(state.resting(np.eye(14))) + np.eye(14))


@pytest.mark.parametrize("noise", [0.0, 0.1])
@quietly
def test_rounds_that_grow_have_no_limit_where_their_rate_is_not_found_either(noise, monkeypatch):
    """Rounds that grow have no limit, even if the search for their rate fails.

    The solution of S = T(S) + D is then no limit, but it shows that the rounds grow.
    """
    setup, drawn = Setup(eta_local=0.4, local_steps=2, eta_global=5.2), {"participation": 0.5, "noise": noise}
    of = (ragged((2,) * 4, d=16, seed=1), setup, None, "scaffold", {})
    assert random_rounds(*of, **drawn).stationary_mean_square() == float("inf")
    for name, value in (("TURNS", 0), ("BASIS", 3), ("RESTARTS", 1)):
        monkeypatch.setattr(f"ntkfl.limit.mean_square.{name}", value)
    grows = random_rounds(*of, **drawn)
    assert grows.mean_square.grows and grows.stationary_mean_square() == float("inf")
    monkeypatch.setattr("ntkfl.limit.mean_square.STATIONARY", 1)
    for name in ("RESTART", "WHOLE"):
        monkeypatch.setattr(f"ntkfl.limit.mean_square.{name}", 1)  # Now the equation S = T(S) + D is not solved either.
    with pytest.raises(ValueError, match=r"the rounds are nearly unstable|was not found"):
        random_rounds(*of, **drawn).stationary_mean_square()


def test_no_sides_are_claimed_without_eigenvectors():
    """The bounds are right for a Jordan chain too, whose radius the search overestimates."""
    mean = 0.8 * np.eye(14) + np.diag(np.full(13, 0.02), 1)
    for noise, rate in ((None, 0.8), (lambda second: 0.3 * second, 0.94**0.5)):
        least, most = StateMoments(mean, noise, rests=False).rate_bounds
        assert least <= rate * (1 + 1e-12) and rate <= most * (1 + 1e-12)


@pytest.mark.parametrize("kind", ["any", "apart", "one reads the other", "all but defective", "slow"])
def test_the_sides_of_a_radius_are_close_and_right(kind):
    """The bounds enclose the largest eigenvalue of the map of second moments.

    One half of the state may evolve alone, so that the eigenvector, a matrix of second moments, is singular.
    """
    rng, size = np.random.default_rng(len(kind)), 14
    for _ in range(4):
        mean, *others = (rng.standard_normal((3, size, size)) / size**0.5 * rng.uniform(0.1, 0.9, (3, 1, 1))).copy()
        if kind == "all but defective":
            mean = 0.8 * np.eye(size) + 0.05 * np.eye(size, k=1) + 1e-3 * mean
        if kind == "slow":
            turned = np.linalg.qr(mean)[0]
            mean, others = (turned * (1 - 10 ** rng.uniform(-4, 0, size))) @ turned.T, [0.01 * part for part in others]
        for part in (mean, *others):
            part[7:, :7] *= kind in ("any", "all but defective", "slow")
            part[:7, 7:] *= kind != "apart"
        radius = np.abs(np.linalg.eigvals(sum(np.kron(part, part) for part in (mean, *others)))).max()
        moments = StateMoments(mean, lambda z, parts=tuple(others): sum(a @ z @ a.T for a in parts), rests=False)
        least, most = moments.rate_bounds
        assert least <= radius**0.5 * (1 + 1e-9) and radius**0.5 * (1 - 1e-9) <= most
        assert moments.rate == pytest.approx(radius**0.5, rel=1e-8)
        assert most - least <= 1e-3 * radius**0.5 or kind == "all but defective"


@pytest.mark.parametrize("scale", [1e-60, 1e-9, 1e9, 1e60])
def test_the_sides_of_a_radius_scale_with_it(scale):
    """A map times a factor has the bounds times the factor, even beyond single precision."""
    parts = scale * np.random.default_rng(3).standard_normal((2, 14, 14)) / 5
    least, most = StateMoments(parts[0], lambda z: parts[1] @ z @ parts[1].T, rests=False).rate_bounds
    rate = scale * np.abs(np.linalg.eigvals(sum(np.kron(part, part) for part in parts / scale))).max() ** 0.5
    assert rate * (1 - 1e-4) <= least <= rate <= most <= rate * (1 + 1e-4)


def test_a_map_to_zero_has_sides():
    moments = StateMoments(np.zeros((14, 14)), np.zeros_like, rests=False)
    assert moments.rate == 0 and moments.stable and moments.rate_bounds[0] == 0


def test_summed_noise_that_reaches_no_output_has_no_infinite_loss():
    """If H is 0 nothing moves, and the noise that FedDyn's server sums up has no effect on outputs."""
    problem = ragged((2, 1), seed=3)
    for drawn in ({}, {"cohorts": [(0,), (1,)]}):
        regime = random_rounds(problem, Setup(eta_local=0.1), np.zeros((3, 3)), "feddyn", noise=0.1, **drawn)
        assert regime.root_mean_square(50) == pytest.approx(np.linalg.norm(problem.y))
        with pytest.raises(ValueError, match="not known"):
            regime.stationary_mean_square()


@pytest.mark.parametrize("off", [0.0, 1e-10])
@quietly
def test_the_limit_is_exact_where_eigenvectors_of_the_mean_meet(off):
    """The limit is exact even if eigenvectors of the mean coincide.

    At the momentum that damps a mode critically, two eigenvectors of a round coincide; slightly off it, they nearly do.
    """
    problem, setup = ragged((2,) * 4, d=16, seed=1), Setup(eta_local=0.4, local_steps=2)
    slowest = random_rounds(problem, setup, None, "fedavg", noise=0.1, cohorts=[range(4)]).rate
    options = {"momentum": (1 - (1 - slowest) ** 0.5) ** 2 * (1 + off)}
    state = random_rounds(problem, setup, None, "fedavgm", options, noise=0.1, cohorts=[range(4)])
    modes = random_rounds(problem, setup, None, "fedavgm", options, noise=0.1)
    if off:  # If eigenvectors coincide, rounding decides whether they are still a basis.
        assert np.linalg.cond(state.mean_square._basis.columns) > 1e5
    assert state.stationary_mean_square() == pytest.approx(modes.stationary_mean_square(), rel=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_nearly_dependent_eigenvectors_leave_nothing_of_the_limit(share):
    mean = 0.5 * np.eye(14)
    mean[:2, :2] = [[0.9, 1], [0, 0.9 - 1e-5]]
    rest = StateMoments(mean, lambda second: share * second, rests=False).resting(np.eye(14))
    solved = np.linalg.solve((1 - share) * np.eye(196) - np.kron(mean, mean), np.eye(14).ravel())
    assert RealBasis.of(mean) is not None and np.allclose(rest.ravel(), solved, rtol=1e-8, atol=1e-9)


def test_a_real_basis_inverts_what_rounds_in_the_mean_do():
    matrix = 0.2 * np.random.default_rng(0).standard_normal((13, 13))
    source = np.cov(np.random.default_rng(1).standard_normal((13, 40)))
    basis = RealBasis.of(matrix)
    assert len(basis.first)  # The basis has complex pairs.
    solved = basis.spread(basis.turned(source), 1.7)
    assert np.abs(1.7 * solved - matrix @ solved @ matrix.T - source).max() < 1e-12


@quietly
def test_the_search_for_a_rate_asks_for_the_memory_that_it_takes(monkeypatch):
    """The stated memory includes the second moments that are combined, which are most of the memory."""
    problem, asked = ragged((30,) * 4, d=40), []
    monkeypatch.setattr("ntkfl.limit.mean_square.require", lambda _, needs, **more: asked.append(needs(more["state"])))
    regime = random_rounds(problem, Setup(eta_local=0.1), None, "scaffold", participation=0.5)
    moments = StateMoments(regime.mean_square.mean, regime.mean_square.noise, rests=False)
    tracemalloc.start()
    _ = moments.rate
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.4 * max(asked) < peak <= max(asked)


def test_memory_is_asked_for_before_the_gram_matrix_is_decomposed(monkeypatch):
    problem = ragged((40, 40), d=100)
    monkeypatch.setattr("ntkfl.memory.NEGLIGIBLE", 1e5)
    monkeypatch.setattr("ntkfl.memory.available", lambda: 6e5)
    monkeypatch.setattr("ntkfl.limit.linear_regime.LinearRegime.unreachable", property(lambda _: pytest.fail("begun")))
    with pytest.raises(
        ValueError, match=r"the rate of random rounds takes .* state up to .*; ntkfl\.sampled_rounds has"
    ):
        random_rounds(problem, Setup(eta_local=0.01), None, "scaffold", participation=0.5)
