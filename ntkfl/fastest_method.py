"""Which federated method is the fastest on given data: exact rounds of each, its steps tuned, beside a lower bound."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar

from ntkfl import interruption, lapack
from ntkfl.exact_dynamics import of_method
from ntkfl.limit.algorithm1_limit import algorithm1_limit
from ntkfl.limit.infinite_width import KernelRegime
from ntkfl.limit.linear_regime import LinearRegime
from ntkfl.problem import Problem, Setup

LOCAL_STEPS = (1, 2, 5, 10, 20)
SHARES = (1.0, 0.3, 0.1)  # of 1 / max_c |H_cc|: local steps at which all else is searched for over a wide range
MORE_SHARES = (1.9, 1.4, 0.55)  # and beside what was found at the nearest one
LOWEST = 0.03  # of the shares that are searched
RESOLUTION, SEARCHES = 0.05, 6  # of the logarithm of the local step, beside the best of these; steps tried, at most
FLAT = 0.01  # of 1 - rate: where the first ones differ by no more, the local step is not searched for
COARSE = np.geomspace(0.02, 50, 15)  # times the first guess, where a step is tuned by a search
BESIDE = np.geomspace(0.25, 4, 5)  # times what was the best at a local step nearby
CLOSE, SCANNED = 1e-3, 3e-2  # relative, of a step that a search has tuned; while the local step is searched for
REACH = 0.4  # of the best 1 - rate: what a coarse search must come to for a fine one to follow
UNSTABLE = 2.0  # what a search is told of a rate that is larger, or of steps for which there is none
MOST_ROUNDS = 100_000  # that are counted for one method
VECTORS = {"scaffold": 4}  # the size of a model each that a client receives and sends a round; 2 unless named


@dataclass(frozen=True)
class Tuned:
    """A method with the steps that make it the fastest at this number of local steps.

    Args:
        label: its name in tables. method, options: as `kernel_regime` takes them. local_steps: K. eta_local: of the
            clients. rate: the factor by which a round lowers the residual in the long run, the
            spectral radius; where H is singular, of the part that can fall.
        rounds: until the residual is eps times that of outputs 0; None where it never is, or not in 100,000.
        vectors: vectors of the model's size that a client receives and sends until then, None with rounds.
        left: the residual after the budget of rounds over that at the start; None without a budget.
    """

    label: str
    method: str
    options: dict[str, Any]
    local_steps: int
    eta_local: float
    rate: float
    rounds: int | None
    vectors: int | None
    left: float | None = None


@dataclass(frozen=True)
class Fastest:
    """All methods at all numbers of local steps.

    Args:
        eps: of the first residual. tuned: one for each method and number of local steps that has a stable step.
        condition: the least condition number that any client-local response can give H, `least_condition`.
        floor: rounds to eps by the best momentum at that condition for the worst labels; None where H is singular. No
            bound for the labels at hand, which may take fewer rounds.
        budget: rounds of `Tuned.left`.
    """

    eps: float
    tuned: tuple[Tuned, ...]
    condition: float
    floor: int | None
    budget: int | None = None

    @property
    def best(self) -> tuple[Tuned, ...]:
        """The fastest of each method, the fastest first; with a budget, the one that leaves least."""
        first: dict[str, Tuned] = {}
        for one in sorted(self.tuned, key=self._order):
            first.setdefault(one.label, one)
        return tuple(first.values())

    def _order(self, one: Tuned) -> tuple[float, float]:
        rounds = float("inf") if one.rounds is None else one.rounds
        return (rounds if one.left is None else one.left, rounds)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON takes it; infinite numbers as None."""
        finite = self.condition if np.isfinite(self.condition) else None
        return asdict(self) | {"condition": finite, "best": [asdict(one) for one in self.best]}


def fastest(
    problem: Problem,
    gram: Float[np.ndarray, "n n"] | None = None,
    local_steps: Sequence[int] = LOCAL_STEPS,
    eta_local: float | None = None,
    eps: float = 1e-6,
    budget: int | None = None,
    progress: Callable[[str], None] = lambda label: None,
) -> Fastest:
    """Tune the steps of every linear method at every number of local steps, and count its rounds exactly.

    All train on full batches of all clients, on sums of squares, at infinite width from outputs 0. Steps are chosen for
    the smallest rate in the long run, not for the fewest rounds to eps, which other steps may take. Server steps of
    fedavg, fedprox and fedavgm are the best ones in closed form for the extreme eigenvalues of H P; those of scaffold
    and cyclic, and alpha of feddyn, mu of fedprox, are found by a search over one number, which promises no global
    optimum. Where H is singular its eigenvalues above rounding count, and scaffold, feddyn and cyclic, whose rates
    cannot be told from 1 there, are left out.

    Args:
        problem: data. gram: H, (n, n); default that of infinite width. local_steps: the K to try.
        eta_local: of the clients; default: searched for below 1.9 / max_c |H_cc|, at 2 of which a client alone
            diverges: six values down to .1, then at most six more between the neighbours of the best one, or down to
            .03, fewer once they are 5% apart. A second minimum between two of the six may be missed. No bound follows
            from that: on digits -log(rate) is within 15% of the best one's, which is tested; on other data it may be
            farther off, and that of cyclic training has been off by more than a factor of two.
        eps: what is left of the residual. budget: rounds after which the residual is compared instead.
        progress: told the method that begins.

    Raises:
        ValueError: eps outside (0, 1), a budget or a K below 1; as `kernel_regime`.

    Source: docs/proofs/linear_methods.md#tuned-server-steps,
    docs/proofs/linear_methods.md#lower-bound-for-client-local-methods. The bound is for clients who train at the same
    time; cyclic training is not bound by it.
    """
    if not 0 < eps < 1:
        raise ValueError(f"eps is {eps:g}; it must lie between 0 and 1")
    if not local_steps or min(local_steps) < 1:
        raise ValueError(f"local_steps are {list(local_steps)}; there must be some, each at least 1")
    if budget is not None and budget < 1:
        raise ValueError(f"the budget is {budget} rounds; it must be at least 1")
    base = algorithm1_limit(problem, Setup(), gram)
    largest = float(base.blocks.clients.values.max())
    singular = not np.isfinite(condition := least_condition(problem, base.gram))
    _ = base._eigen  # once, for every regime that is tried
    found = []
    for label, (method, choose) in METHODS.items():
        progress(label)
        for steps in local_steps:
            search = _Search(method, choose, base, singular, steps)
            if eta_local is None:
                search.over(1 / largest)
            else:
                search.least(eta_local)
            if search.tried:
                found.append(_counted(label, *search.best, eps, budget))
    floor = _worst_rounds(condition, eps)
    return Fastest(eps, tuple(found), condition, floor, budget)


def least_condition(problem: Problem, gram: Float[np.ndarray, "n n"]) -> float:
    """Below it no symmetric positive P, block-diagonal over the clients, brings kappa(H P).

    (M - nu) / ((M - 1) nu), nu the least eigenvalue of H_D^-1 H and M the number of clients, rounded up to an even one;
    attained for two clients. inf where H is singular, up to rounding.

    Args:
        problem: data. gram: H, (n, n).

    Source: docs/proofs/linear_methods.md#lower-bound-for-client-local-methods.
    """
    if len(_above_rounding(np.linalg.eigvalsh(gram))) < problem.n:
        return float("inf")
    blocks = np.where(problem.owner[:, None] == problem.owner, gram, 0)
    both = (np.array(one, float, order="F") for one in (gram, blocks))
    least = float(lapack.generalised_eigenvalues(*both)[0])
    even = problem.n_clients + problem.n_clients % 2
    return (even - least) / ((even - 1) * least)


def _above_rounding(eigenvalues: np.ndarray) -> np.ndarray:
    """Those of a positive semi-definite matrix, ascending, that are no rounding of 0."""
    return eigenvalues[eigenvalues > len(eigenvalues) * np.finfo(float).eps * eigenvalues[-1]]


def _rate(regime: LinearRegime) -> float:
    """The spectral radius, on what is not in the kernel of H where the spectrum tells it apart."""
    if regime.nu is None or regime.round.roots is None:
        return regime.rate
    return float(np.abs(regime.round.roots(_above_rounding(regime.nu))).max())


def _worst_rounds(condition: float, eps: float) -> int | None:
    """Rounds after which momentum's factor (sqrt kappa - 1)/(sqrt kappa + 1), to that power, is eps."""
    if not np.isfinite(condition):
        return None
    rate = (np.sqrt(condition) - 1) / (np.sqrt(condition) + 1)
    return 1 if rate <= eps else int(np.ceil(np.log(eps) / np.log(rate)))


@dataclass(frozen=True, eq=False)
class _Try:
    """The data at one local step and number of local steps."""

    base: KernelRegime
    singular: bool
    nearby: dict[str, Any] = field(default_factory=dict)  # options that were the best at a local step near this one
    close: float = CLOSE
    known: float = UNSTABLE  # the least rate that is known at another local step

    def least(self, value: Callable[[float], float], name: str, guess: float) -> float:
        """The option of this name, positive, near which a rate is least: by a coarse search, then a fine one beside it.

        The coarse one is beside what is nearby where that is known and the best is not at its ends, else widely about
        the guess. Where it comes nowhere near the `known` least rate no fine one follows.

        Args:
            value: the rate, by the option. name: of the option. guess: of it.
        """

        def bounded(x: float) -> float:
            return min(UNSTABLE, value(x))  # in this order, so that NaN is unstable too

        near = name in self.nearby
        coarse = self.nearby[name] * BESIDE if near else guess * COARSE
        values = [bounded(float(x)) for x in coarse]
        at = int(np.argmin(values))
        if near and at in (0, len(coarse) - 1):
            return replace(self, nearby={}).least(value, name, guess)
        if 1 - values[at] < REACH * (1 - self.known):
            return float(coarse[at])
        low, high = np.log(coarse[max(at - 1, 0)]), np.log(coarse[min(at + 1, len(coarse) - 1)])
        fine = minimize_scalar(lambda z: bounded(float(np.exp(z))), bounds=(low, high), options={"xatol": self.close})
        return float(np.exp(fine.x)) if fine.fun < values[at] else float(coarse[at])

    @property
    def length(self) -> float:
        """How far a client goes along a constant gradient."""
        return self.base.setup.eta_local * self.base.setup.local_steps

    def regime(self, method: str, **options: Any) -> LinearRegime:
        return of_method(self.base, method, options)

    def extremes(self, method: str, **options: Any) -> tuple[float, float]:
        """Of H u(H_D) at server rate 1: the smallest eigenvalue, above rounding where H is singular; the largest."""
        nu = self.regime(method, server_rate=1.0, **options).nu
        assert nu is not None
        above = _above_rounding(nu)
        falling = len(above) == len(nu) or (self.singular and len(above))  # none: no server step helps
        return float(above[0] if falling else nu[0]), float(nu[-1])


def _averaged(at: _Try, method: str, **options: Any) -> dict[str, Any] | None:
    """With the server rate that makes the extreme eigenvalues of the map opposite."""
    slowest, fastest_ = at.extremes(method, **options)
    return options | {"server_rate": 2 / (slowest + fastest_)} if slowest > 0 else None


def _fedprox(at: _Try, method: str) -> dict[str, Any] | None:
    def rate(mu: float) -> float:
        chosen = _averaged(at, method, mu=mu)
        return UNSTABLE if chosen is None else _rate(at.regime(method, **chosen))

    return _averaged(at, method, mu=at.least(rate, "mu", 1 / at.length))


def _momentum(at: _Try, method: str) -> dict[str, Any] | None:
    slowest, fastest_ = at.extremes("fedavg")
    if slowest <= 0:
        return None
    low, high = np.sqrt(slowest), np.sqrt(fastest_)
    return {"momentum": float(((high - low) / (high + low)) ** 2), "server_rate": float((2 / (low + high)) ** 2)}


def _nesterov(at: _Try, method: str) -> dict[str, Any] | None:
    slowest, fastest_ = at.extremes("fedavg")
    if slowest <= 0:
        return None
    root = np.sqrt(3 * fastest_ / slowest + 1)
    momentum = max(0.0, float((root - 2) / (root + 2)))
    return {"momentum": momentum, "nesterov": True, "server_rate": 4 / (3 * fastest_ + slowest)}


def _searched(at: _Try, method: str) -> dict[str, Any] | None:
    """With the server rate, or FedDyn's alpha, that a search finds."""
    if at.singular:
        return None
    name, guess = ("alpha", 1 / at.length) if method == "feddyn" else ("server_rate", 1.0)
    return {name: at.least(lambda value: at.regime(method, **{name: value}).rate, name, guess)}


# The options of the method that are the fastest there; None: no stable ones are known.
Choice = Callable[[_Try, str], dict[str, Any] | None]

METHODS: dict[str, tuple[str, Choice]] = {
    "fedavg, server rate 1": ("fedavg", lambda at, method: {"server_rate": 1.0}),
    "fedavg": ("fedavg", _averaged),
    "fedprox": ("fedprox", _fedprox),
    "scaffold": ("scaffold", _searched),
    "feddyn": ("feddyn", _searched),
    "cyclic": ("cyclic", _searched),
    "fedavgm": ("fedavgm", _momentum),
    "fedavgm, nesterov": ("fedavgm", _nesterov),
}


Found = tuple[LinearRegime, dict[str, Any]]


@dataclass(eq=False)
class _Search:
    """For the local step of a method at this number of local steps; `tried` has what is stable, with its rate."""

    method: str
    choose: Choice
    base: KernelRegime
    singular: bool
    steps: int
    tried: list[tuple[float, Found]] = field(default_factory=list)

    @property
    def best(self) -> Found:
        """That with the smallest rate, the first of equal ones."""
        return min(self.tried, key=lambda one: round(one[0], 12))[1]

    def least(self, eta: float, nearby: bool = False, close: float = CLOSE) -> float:
        """The least rate at a local step; nearby: only beside what was the best at the nearest one."""
        interruption.check()
        beside: dict[str, Any] = {}
        if nearby and self.tried:
            beside = min(self.tried, key=lambda one: abs(np.log(one[1][0].setup.eta_local / eta)))[1][1]
        base = self.base.at(Setup(eta_local=eta, local_steps=self.steps))
        known = min((rate for rate, _ in self.tried), default=UNSTABLE)
        at = _Try(base, self.singular, beside, close, known)
        options = self.choose(at, self.method)
        if options is None or (regime := at.regime(self.method, **options)).step_warning is not None:
            return UNSTABLE
        self.tried.append((_rate(regime), (regime, options)))
        return self.tried[-1][0]

    def over(self, unit: float) -> None:
        """Try local steps of up to 1.9 units: a grid, and between the neighbours of its best a bounded search."""
        of = {share * unit: self.least(share * unit) for share in SHARES}
        of |= {share * unit: self.least(share * unit, True, SCANNED) for share in MORE_SHARES}
        best = min(of, key=lambda eta: of[eta])
        if not self.tried or max(of.values()) - of[best] <= FLAT * (1 - of[best]):
            return
        low = max((eta for eta in of if eta < best), default=LOWEST * unit)
        high = min((eta for eta in of if eta > best), default=best)
        minimize_scalar(
            lambda z: self.least(float(np.exp(z)), True, SCANNED),
            bounds=(np.log(low), np.log(high)),
            options={"xatol": RESOLUTION, "maxiter": SEARCHES},
        )
        self.least(self.best[0].setup.eta_local, True)


def _counted(label: str, regime: LinearRegime, options: dict[str, Any], eps: float, budget: int | None) -> Tuned:
    rounds, left = None, None
    with suppress(ValueError):  # it never falls so far, or needs too many rounds
        rounds = regime.rounds_to(eps, at_most=MOST_ROUNDS)
    if budget is not None:
        ends = np.linalg.norm(regime.residual(np.array([0, budget])).reshape(2, -1), axis=1)
        left = float(ends[1] / ends[0]) if ends[0] else 0.0
    setup, each = regime.setup, VECTORS.get(regime.method, 2)
    vectors = None if rounds is None else rounds * each
    rate = _rate(regime)
    return Tuned(label, regime.method, options, setup.local_steps, setup.eta_local, rate, rounds, vectors, left)
