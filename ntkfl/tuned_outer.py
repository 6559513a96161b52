"""The best outer optimizer for a budget of rounds or samples, found by exact expected losses.

Clients take K local steps. The server's (outer) optimizer then steps along the mean of their displacements: plainly,
with momentum, or with Nesterov's momentum, as in DiLoCo. The server's rate, its momentum and the local steps are tuned.
Optimizers are compared by E |y - f(T)|^2 at the end of the budget, and not by their rate in the long run. The
expectation is over all draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import expit, logit

from ntkfl.exact_dynamics import random_of_method
from ntkfl.limit.infinite_width import Kernel, KernelRegime, algorithm1_limit
from ntkfl.limit.random_regime import RandomRegime, require_moments
from ntkfl.messages import did_you_mean, require_size
from ntkfl.problem import Problem, Setup, require_labels
from ntkfl.training.engine.local_plan import cohort_size
from ntkfl.work import require_work

OUTER: dict[str, tuple[str, dict[str, Any]]] = {
    "average": ("fedavg", {}),
    "momentum": ("fedavgm", {"nesterov": False}),
    "nesterov": ("fedavgm", {"nesterov": True}),
    "falling": ("fedavg", {}),  # in this optimizer the server's rate falls by the same factor in every round
}
USUAL = ("average", "momentum", "nesterov")  # the optimizers that are tried by default
LARGEST_MOMENTUM = 0.99
SHARES = (0.02, 0.1, 0.3, 0.7)  # starting values of eta_local, as shares of the value at which a client alone diverges
RATES = (0.5, 1.0, 2.0, 4.0)  # starting values of the server's step
MOMENTA = (0.3, 0.6, 0.85)
FALLS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.005, 0.001)  # starting values of the last server rate divided by the first
# factors of a falling rate's starting value; several are tried because the loss has many minima
NEARBY = (0.5, 0.7, 1.0, 1.4, 2.0, 3.0)
EPSILON = float(np.finfo(float).eps)
SMALLEST = float(np.finfo(float).tiny)  # the smallest root mean square whose logarithm is taken
TRIES = 70  # the largest number of losses that a search from one starting point computes
# the number of best starting points from which a search begins; the number is 1 for an optimizer that is not named here
SEARCHES = {"falling": 12}


@dataclass(frozen=True)
class Drawn:
    """The random parts of a round, as in `ntkfl.random_rounds`.

    Args:
        batch_size: the largest number of samples in a local step; None: all samples of the client.
        participation: share of the clients in a round, in (0, 1].
        noise: standard deviation of the Gaussian noise on every weight of the clients' mean displacement.
    """

    batch_size: int | None = None
    participation: float = 1.0
    noise: float = 0.0


@dataclass(frozen=True)
class OuterChoice:
    """The best steps that were found for an outer optimizer and a number of local steps.

    Args:
        outer: average, momentum, nesterov or falling.
        local_steps: K.
        rounds: T, the number of rounds in the budget.
        eta_local: the clients' step on the sum of their losses.
        server_rate: the server's step, which multiplies the mean displacement; if it falls, the step of the first
            round.
        momentum: momentum of the server, 0 for the average.
        mean_square: E |y - f(T)|^2 / n over the training samples.
        floor: a lower bound of E |y - f(T)|^2 / n, at this K and eta_local, for every outer optimizer that combines
            mean displacements with coefficients set in advance.
        long_run: the mean square after infinitely many rounds with these steps. The mean square "falls" to 0; it
            "stays" above 0, in the part that no weights can change; it "grows", which is possible for the best steps of
            a short budget; or it is "not decided", if rounding hides the answer.
        last_rate: the server's step in the last round, if it falls by the same factor in each round; otherwise None.
    """

    outer: str
    local_steps: int
    rounds: int
    eta_local: float
    server_rate: float
    momentum: float
    mean_square: float
    floor: float
    long_run: str
    last_rate: float | None = None

    @property
    def stable(self) -> bool:
        """Whether the mean square is known to fall to 0 with these steps."""
        return self.long_run == "falls"

    @property
    def method(self) -> str:
        """The method's name, as `ntkfl.random_rounds` takes it."""
        return OUTER[self.outer][0]

    @property
    def options(self) -> dict[str, Any]:
        """The method's options."""
        return _options(self.outer, self.server_rate, self.momentum)

    @property
    def schedule(self) -> list[float] | None:
        """The `eta_global` of `ntkfl.random_rounds`, by round; None if the server's rate is one of the options."""
        return None if self.last_rate is None else _falling(self.server_rate, self.last_rate, self.rounds)


def tune_outer(
    problem: Problem,
    gram: ArrayLike | Kernel | None = None,
    *,
    rounds: int | None = None,
    samples: int | None = None,
    local_steps: Sequence[int] = (1, 4, 16),
    outer: Sequence[str] = USUAL,
    drawn: Drawn | None = None,
    progress: Callable[[str], None] = lambda label: None,
) -> list[OuterChoice]:
    """The best steps of every outer optimizer and every K for a budget, ordered by expected loss, the smallest first.

    The search varies the server's rate, its momentum and eta_local together, where eta_local stays below the value at
    which a client alone diverges. An optimizer with momentum, or with a rate that falls, is never worse than plain
    averaging with the same K. No further optimum is promised. `floor` bounds the possible gain.

    Args:
        problem: data; y (n,) or (n, C).
        gram: as in `ntkfl.kernel_regime`; None: the Gram matrix of the two-layer network at infinite width.
        rounds: T; default as many rounds as `samples` allow.
        samples: in place of rounds, the number of sample gradients that all clients together may compute.
        local_steps: numbers of local steps to try; default (1, 4, 16).
        outer: names of outer optimizers: average, momentum, nesterov, falling; the first three unless given.
        drawn: batches, clients and noise; None: full batches, all clients, no noise.
        progress: a function that is called with the name of each optimizer and K before it is tuned; default: none.

    Returns:
        A choice for every outer optimizer and number of local steps.

    Raises:
        ValueError: both budgets or none; a budget that allows no round, or so many rounds that computing the expected
            losses takes too long; an unknown outer optimizer; labels that are all 0; as `random_rounds`.

    Source: docs/proofs/random_rounds.md#outer-optimizers.
    """
    drawn = drawn or Drawn()
    require_labels(problem)
    for name, given in (("outer", outer), ("local_steps", local_steps)):
        if not len(given):
            raise ValueError(f"{name} is empty; name at least one to try")
    for name in outer:
        if name not in OUTER:
            raise ValueError(
                f"there is no outer optimizer {name!r}.{did_you_mean(name, OUTER)} There are {', '.join(OUTER)}: exact "
                "losses are known where the server combines displacements by numbers that do not depend on them"
            )
    require_outer(problem, outer)
    base, choices = algorithm1_limit(problem, Setup(), gram), []
    searches = [_Search(base, steps, _rounds(problem, steps, drawn, rounds, samples), drawn) for steps in local_steps]
    most = max(search.rounds for search in searches)

    def work(rounds: int) -> float:
        return sum(search.work(outer, rounds * search.rounds // most) for search in searches)

    require_work("the losses that are compared", work, rounds=most)
    for search in searches:
        plain = search.best("average", search.grid())
        for name in outer:
            progress(f"{name}, K = {search.steps}, {search.rounds} rounds")
            best = plain if name == "average" else search.best(name, search.begun(name, plain[1]), plain)
            choices.append(search.choice(name, *best))
    return sorted(choices, key=lambda choice: choice.mean_square)


def require_outer(problem: Problem, outer: Sequence[str]) -> None:
    """Refuse a search among these outer optimizers if its moments do not fit the memory.

    Args:
        problem: data; only its sizes count.
        outer: names of outer optimizers.

    Raises:
        TooLittleMemory: the moments do not fit; the message has the memory that they take and the number of samples
            that would fit.
    """
    require_moments(problem.n, problem.y[0].size, 2 if {"momentum", "nesterov"} & set(outer) else 1)


def krylov_floor(regime: RandomRegime, rounds: int, initial_outputs: ArrayLike | None = None) -> float:
    """A lower bound of E |r(T)|^2 for every outer optimizer that combines the displacements by coefficients set in
    advance.

    The bound is min |p(A) r(0)|^2 over the polynomials p of degree T with p(0) = 1, where A r is the change of the
    residual r by the mean displacement.

    Args:
        regime: the regime of averaging, with the local steps.
        rounds: T.
        initial_outputs: y(0), (n,) or (n, C); 0 unless given.

    Source: docs/proofs/random_rounds.md#outer-optimizers.
    """
    return float(sum(_least(regime, column, rounds) for column in regime._initial_residual(initial_outputs).T))


def _least(regime: RandomRegime, start: Float[np.ndarray, " n"], degree: int) -> float:
    """The smallest squared residual of one output, minus rounding, from the orthonormal basis of Arnoldi's
    iteration.
    """
    size = float(np.linalg.norm(start))
    if not size:
        return 0.0
    basis, images = [start / size], []
    for _ in range(min(degree, len(start))):
        image = regime.gram @ regime.noise.mean(basis[-1][:, None])[:, 0]
        images.append(image)
        rest = image
        for _ in range(2):  # the second pass removes what rounding has left
            rest = rest - sum(float(vector @ rest) * vector for vector in basis)
        length = float(np.linalg.norm(rest))
        if length <= 1e-13 * float(np.linalg.norm(image)):
            break
        basis.append(rest / length)
    a = np.array(images).T
    combined = np.linalg.lstsq(a, start, rcond=None)[0]
    rounding = len(start) * EPSILON * (size + float(np.linalg.norm(a) * np.linalg.norm(combined)))
    return max(float(np.linalg.norm(start - a @ combined)) - rounding, 0.0) ** 2


def _rounds(problem: Problem, steps: int, drawn: Drawn, rounds: int | None, samples: int | None) -> int:
    """T, which is given, or as large as the samples allow."""
    require_size("local_steps", steps)
    if (rounds is None) == (samples is None):
        raise ValueError(f"rounds is {rounds} and samples is {samples}; give one of them, the budget")
    if rounds is not None:
        require_size("rounds", rounds)
        return rounds
    assert samples is not None
    require_size("samples", samples)
    sizes = np.bincount(problem.owner)
    clients = problem.n_clients
    share = cohort_size(clients, drawn.participation) / clients
    a_round = share * steps * np.minimum(sizes, drawn.batch_size or sizes.max()).sum()
    if samples < a_round:
        raise ValueError(f"a round of K = {steps} takes {a_round:.6g} samples; the budget is {samples}")
    return int(samples / a_round)


def _options(outer: str, server_rate: float, momentum: float) -> dict[str, Any]:
    if outer == "falling":
        return {}
    given = {} if outer == "average" else {"momentum": momentum}
    return OUTER[outer][1] | given | {"server_rate": server_rate}


def _falling(first: float, last: float, rounds: int) -> list[float]:
    """The server's rates from the first to the last, which fall by the same factor in every round."""
    return np.geomspace(first, last, rounds).tolist() if rounds > 1 else [first]


# A point of the search has two or three numbers. The first is the logit of eta_local over its limit, and the second the
# logarithm of the (first) server rate. The third is the logit of the momentum over the largest momentum, or of the last
# server rate over the first.
Point = Float[np.ndarray, " k"]


class _Search:
    """Expected losses at the end of a budget, for one number of local steps."""

    def __init__(self, base: KernelRegime, steps: int, rounds: int, drawn: Drawn) -> None:
        self.base, self.steps, self.rounds, self.drawn = base, steps, rounds, drawn
        self.largest = base.step_limits.eta_local
        # one regime for each outer optimizer, from which the work is estimated
        self.regimes: dict[str, RandomRegime] = {}

    def work(self, outer: Sequence[str], rounds: int) -> float:
        """Operations that all losses at the end of this number of rounds take."""
        total = 0.0
        for name in dict.fromkeys(("average", *outer)):
            plain = self.grid()
            begun = plain if name == "average" else self.begun(name, plain[0])
            like = "average" if name == "falling" else name
            if like not in self.regimes:
                self.regimes[like] = self.regime(like, begun[0])
            regime = self.regimes[like]
            a_loss = regime._work(rounds) if name == like else rounds * regime._work_of_labels
            total += (len(begun) + SEARCHES.get(name, 1) * TRIES) * a_loss
        return total

    def regime(self, outer: str, point: Point) -> RandomRegime:
        """The random rounds with these steps."""
        at = self.base.at(Setup(eta_local=float(self.largest * expit(point[0])), local_steps=self.steps))
        rate, momentum, last = self._rates(outer, point)
        options, drawn = _options(outer, rate, momentum), self.drawn
        return random_of_method(
            at,
            OUTER[outer][0],
            options,
            batch_size=drawn.batch_size,
            participation=drawn.participation,
            noise=drawn.noise,
            eta_global=None if last is None else _falling(rate, last, self.rounds),
        )

    def _rates(self, outer: str, point: Point) -> tuple[float, float, float | None]:
        """The server's rate, its momentum, and the rate in the last round; the last is None if the rate does not
        fall.
        """
        rate, share = float(np.exp(point[1])), float(expit(point[2])) if len(point) > 2 else 0.0
        last = rate * share if self.rounds > 1 else rate
        return (rate, 0.0, last) if outer == "falling" else (rate, LARGEST_MOMENTUM * share, None)

    def loss(self, outer: str, point: Point) -> float:
        """log(E |r(T)|^2); it is infinite if the run overflows, and finite if the residual is 0."""
        try:
            size = float(self.regime(outer, point).root_mean_square(self.rounds))
        except OverflowError:
            return float("inf")
        return 2 * np.log(max(size, SMALLEST))

    def grid(self) -> list[Point]:
        """The starting points for averaging.

        For K = 1 without noise only the product of the two steps matters, so one eta_local is enough.
        """
        shares = SHARES[-2:-1] if self.steps == 1 else SHARES
        return [np.array([logit(share), np.log(rate)]) for share in shares for rate in RATES]

    def begun(self, outer: str, plain: Point) -> list[Point]:
        """The starting points for another optimizer: the steps of averaging, with an equivalent server rate."""
        if outer == "falling":
            starts = [(plain[1] - np.log(fall) / 2, logit(fall)) for fall in FALLS]
            return [np.array([plain[0], rate + np.log(near), fall]) for rate, fall in starts for near in NEARBY]
        return [np.array([plain[0], plain[1] + np.log(1 - b), logit(b / LARGEST_MOMENTUM)]) for b in MOMENTA]

    def best(self, outer: str, begun: Sequence[Point], known: tuple[float, Point] | None = None) -> tuple[float, Point]:
        """The smallest loss and its point, found by searches from the best of these points.

        If the loss of `known` is smaller, the result is `known`, as a point of this optimizer.
        """
        losses = [self.loss(outer, point) for point in begun]
        ends = []
        for place in np.argsort(losses, kind="stable")[: SEARCHES.get(outer, 1)]:
            start = begun[place]
            simplex = np.vstack([start, start + 0.4 * np.eye(len(start))])
            options = {"initial_simplex": simplex, "maxfev": TRIES, "xatol": 1e-3, "fatol": 1e-4}
            done = minimize(lambda point: self.loss(outer, point), start, method="Nelder-Mead", options=options)
            ends.append((float(done.fun), np.asarray(done.x)))
        least = min(ends, key=lambda end: end[0])
        if known is None or least[0] <= known[0]:
            return least
        # with this point the optimizer equals the average
        return known[0], np.append(known[1], np.inf if outer == "falling" else -np.inf)

    def choice(self, outer: str, log_loss: float, point: Point) -> OuterChoice:
        """The steps of a point and its loss, as an `OuterChoice`."""
        n, regime = self.base.problem.n, self.regime(outer, point)
        rate, momentum, last = self._rates(outer, point)
        floor = krylov_floor(self.regime("average", point[:2]), self.rounds) / n
        steps = self.steps, self.rounds, regime.setup.eta_local, rate, momentum
        return OuterChoice(outer, *steps, float(np.exp(log_loss)) / n, floor, _long_run(regime), last)


def _long_run(regime: RandomRegime) -> str:
    of = regime.mean_square
    return "falls" if of.stable else "grows" if of.grows else "not decided" if of.undecided else "stays"
