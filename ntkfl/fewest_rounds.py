"""The search for the steps by which a linear method needs the fewest rounds on given data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize

from ntkfl import interruption
from ntkfl.exact_dynamics import of_method
from ntkfl.gram.tiles import HeldGram
from ntkfl.limit.infinite_width import KernelRegime
from ntkfl.limit.linear_regime import LinearRegime
from ntkfl.limit.matrix_free import MatrixFreeRegime
from ntkfl.limit.rounds_between import NEVER, falls_on
from ntkfl.problem import Setup

Options = dict[str, Any]
Setting = tuple[float, Options]  # a client step eta_local, and the method's options

SHARES = (1.9, 1.4, 1.0, 0.55, 0.3, 0.1)  # client steps to start from, as multiples of 1 / max_c |H_cc|
LOWEST = 0.03  # the smallest multiple of 1 / max_c |H_cc| that is tried as a client step
RATES = 2.0 ** np.arange(-2, 6)  # server rates to start from, if no formula gives a rate
PULLS = 4.0 ** np.arange(-3, 4)  # alpha of feddyn and mu of fedprox to start from, in units of 1 / (K eta_local)
# quantiles of the eigenvalues; for the eigenvalues above each quantile, closed forms give the best steps
QUARTERS = np.linspace(0, 1, 5)
# first step of the search; its last step if several numbers vary; its last step if one number varies
WIDTH, CLOSE, CLOSER = 0.3, 2e-2, 1e-3
TRIES = 40  # number of settings to try, for each number that varies
# two starts of the search differ by at least APART in some tuned number; BEGINNINGS is the number of starts
APART, BEGINNINGS = 0.5, 3
# After a search on fewer samples: the number of settings to try for each number, and the number of server steps to try.
FEW, HALVED = 6, 8
# number of rounds that are run with a setting if no formula predicts the rounds; later rounds are extrapolated
LOOKED = 256
PULLING = "alpha", "mu"  # options that are given in units of 1 / (K eta_local)
NO_MODES = "scaffold", "feddyn", "cyclic"  # methods whose rounds are no functions of one symmetric matrix
# For each number, a scale on which equal distances have about equal effects: the map to the scale, the inverse map, and
# the bounds on the scale.
SCALES: dict[str, tuple[Callable, Callable, float, float]] = {
    "eta_local": (np.log, np.exp, np.log(LOWEST), np.log(SHARES[0])),
    "server_rate": (np.log, np.exp, -10.0, 10.0),
    "alpha": (np.log, np.exp, -15.0, 15.0),
    "mu": (np.log1p, np.expm1, 0.0, 10.0),
    "momentum": (lambda b: -np.log1p(-b), lambda z: -np.expm1(-z), 0.0, 15.0),
}


@dataclass(frozen=True)
class Tunable:
    """A method, with the options that are tuned."""

    method: str
    names: tuple[str, ...]  # names of the options that are tuned
    starts: Callable[[KernelRegime], Iterator[Options]]  # gives the options from which the search starts, for a regime
    special: str | None = None  # the label of a method that is the special case of this method with the options `at`
    at: Options = field(default_factory=dict)


@dataclass(eq=False)
class Search:
    """The search for the settings of a method that need the fewest rounds, at one number of local steps."""

    tunable: Tunable  # the method
    base: KernelRegime  # the data, at any steps
    steps: int  # K
    unit: float  # 1 / max_c |H_cc|
    # a function that gives the number to minimise, from a regime and the smallest such number so far
    aim: Callable[[LinearRegime, float], float]
    eta_local: float | None = None  # None: eta_local is tuned too
    refine: bool = True  # whether the search goes on from the best starts
    # if given, the residual after this many rounds is minimised; None: the number of rounds is minimised
    rounds: int | None = None
    least: float = NEVER
    best: Setting | None = None

    def run(self, known: list[Setting]) -> None:
        """Search from the best of all starts and of the `known` settings.

        Without a matrix each client step, and each alpha or mu, costs a Krylov space of its own. So without a matrix
        the search takes client steps, alpha and mu from the starts only, and varies the server's numbers.
        """
        if self.eta_local is None and isinstance(self.base.gram, HeldGram) and self.tunable.method not in NO_MODES:
            for eta in [share * self.unit for share in SHARES]:
                self.eta_local = eta
                self.run([setting for setting in known if setting[0] == eta])
            return
        etas = [share * self.unit for share in SHARES] if self.eta_local is None else [self.eta_local]
        starts = [(eta, options) for eta in etas for options in self.tunable.starts(self._at(eta))] + known
        ranked = sorted((self.value(*setting), number) for number, setting in enumerate(starts))
        if not ranked or self.best is None or not self.refine:
            return
        begun: list[np.ndarray] = []
        for _, number in ranked:
            z = self._numbers(*starts[number])
            if all(np.abs(z - other).max(initial=0) > APART for other in begun):
                begun.append(z)
                self._descend(z, starts[number][1])
            if len(begun) == BEGINNINGS:
                break

    def follow(self, sample: Search) -> None:
        """Search from the best setting of `sample`, which is a search on fewer samples.

        The server step of this setting is first halved until it is stable on the samples of this search.
        """
        if sample.best is None:
            return
        options, smaller = sample.best[1], [{"server_rate": -1, "alpha": 1}.get(name, 0) for name in self._names]
        for halved in range(HALVED):
            numbers = sample._numbers(*sample.best) + np.log(2) * halved * np.array(smaller)
            numbers = np.clip(numbers, *self._bounds.T)
            if self.value(*self._setting(numbers, options)) < NEVER:
                if self.refine:
                    self._descend(numbers, options, FEW)
                return

    def value(self, eta: float, options: Options) -> float:
        """The number to minimise at a setting; NEVER if the steps are unstable.

        Stability is tested only if the number is smaller than the numbers of all settings before.
        """
        interruption.check()
        regime = self.regime(eta, options)
        run = isinstance(self.base.gram, HeldGram) and self.tunable.method in NO_MODES
        if isinstance(regime, MatrixFreeRegime) and not (run or regime.has_ritz):
            return NEVER
        reached = self.aim(regime, self.least)
        if reached >= self.least:
            return reached
        if run:
            steady = falls_on(regime, int(min(np.ceil(reached), LOOKED)) if self.rounds is None else self.rounds)
        elif isinstance(regime, MatrixFreeRegime):
            steady = regime.likely_stable
        else:
            steady = not regime._grows  # unlike `step_warning`, `_grows` does not search for a stable rate
        if not steady:
            return NEVER
        self.least, self.best = reached, (eta, options)
        return reached

    def regime(self, eta: float, options: Options) -> LinearRegime:
        return of_method(self._at(eta), self.tunable.method, options)

    def _at(self, eta: float) -> KernelRegime:
        return self.base.at(Setup(eta_local=eta, local_steps=self.steps))

    @property
    def _names(self) -> list[str]:
        """The names of the numbers that are tuned."""
        own = [name for name in self.tunable.names if name != "mu" or not isinstance(self.base.gram, HeldGram)]
        return [*(["eta_local"] if self.eta_local is None else []), *own]

    @property
    def _bounds(self) -> np.ndarray:
        return np.array([SCALES[name][2:] for name in self._names])

    def _numbers(self, eta: float, options: Options) -> np.ndarray:
        """The numbers of a setting on their `SCALES`, within the bounds."""
        own = {"eta_local": eta / self.unit} | options
        scaled = {name: own[name] * eta * self.steps if name in PULLING else own[name] for name in self._names}
        return np.array([np.clip(SCALES[name][0](value), *SCALES[name][2:]) for name, value in scaled.items()])

    def _setting(self, numbers: np.ndarray, options: Options) -> Setting:
        """The setting of some numbers, as the inverse of `_numbers`; options that are not tuned stay as they are."""
        own = {name: float(SCALES[name][1](z)) for name, z in zip(self._names, numbers, strict=True)}
        eta = self.unit * own.pop("eta_local") if self.eta_local is None else self.eta_local
        return eta, options | {n: v / (eta * self.steps) if n in PULLING else v for n, v in own.items()}

    def _descend(self, start: np.ndarray, options: Options, tries: int = TRIES) -> None:
        """Nelder and Mead's search from `start`."""
        if not len(start):
            return
        close = CLOSE if len(start) > 1 else CLOSER
        steps = np.where(start + WIDTH > self._bounds[:, 1], -WIDTH, WIDTH)
        minimize(
            lambda z: np.log(max(self.value(*self._setting(z, options)), np.finfo(float).tiny)),
            start,
            method="Nelder-Mead",
            bounds=self._bounds,
            options={
                "initial_simplex": np.vstack([start, start + np.diag(steps)]),
                "xatol": close,
                "fatol": close / 10,
                "maxfev": tries * len(start),
            },
        )


def above_rounding(eigenvalues: np.ndarray) -> np.ndarray:
    """The eigenvalues, ascending, of a positive semi-definite matrix, without those that may be nonzero only by
    rounding.
    """
    return eigenvalues[eigenvalues > len(eigenvalues) * np.finfo(float).eps * eigenvalues[-1]]


def _spectra(at: KernelRegime, method: str, **options: Any) -> Iterator[tuple[float, float]]:
    """Yields quartiles of the eigenvalues of H P, each with the largest eigenvalue.

    P is the clients' response at server rate 1.
    """
    regime = of_method(at, method, {"server_rate": 1.0, **options})
    response = regime.round.response
    if isinstance(regime, MatrixFreeRegime):
        eigenvalues = np.sort(regime.ritz.values.ravel()) if regime.has_ritz else None
    else:
        eigenvalues = regime.response_eigenvalues
    if response is not None and np.isfinite(response).all() and eigenvalues is not None:
        nu = above_rounding(eigenvalues)
        if len(nu):
            for low in np.unique(nu[np.round(QUARTERS * (len(nu) - 1)).astype(int)]):
                yield float(low), float(nu[-1])


def _averaged(at: KernelRegime) -> Iterator[Options]:
    for low, high in _spectra(at, "fedavg"):
        yield {"server_rate": 2 / (low + high)}


def _pulled(at: KernelRegime) -> Iterator[Options]:
    for pull in PULLS[2:5]:
        mu = pull / (at.setup.eta_local * at.setup.local_steps)
        for low, high in _spectra(at, "fedprox", mu=mu):
            yield {"mu": mu, "server_rate": 2 / (low + high)}


def _momentum(at: KernelRegime) -> Iterator[Options]:
    for low, high in _spectra(at, "fedavg"):
        a, b = np.sqrt(low), np.sqrt(high)
        yield {"momentum": float(((b - a) / (b + a)) ** 2), "server_rate": float((2 / (a + b)) ** 2)}


def _nesterov(at: KernelRegime) -> Iterator[Options]:
    for low, high in _spectra(at, "fedavg"):
        root = np.sqrt(3 * high / low + 1)
        momentum = max(0.0, float((root - 2) / (root + 2)))
        yield {"momentum": momentum, "nesterov": True, "server_rate": 4 / (3 * high + low)}


def _server_rates(at: KernelRegime) -> Iterator[Options]:
    for rate in RATES:
        yield {"server_rate": float(rate)}


def _duals(at: KernelRegime) -> Iterator[Options]:
    for pull in PULLS:
        yield {"alpha": float(pull / (at.setup.eta_local * at.setup.local_steps))}


METHODS: dict[str, Tunable] = {
    "fedavg, server rate 1": Tunable("fedavg", (), lambda at: iter([{"server_rate": 1.0}])),
    "fedavg": Tunable("fedavg", ("server_rate",), _averaged, "fedavg, server rate 1"),
    "fedprox": Tunable("fedprox", ("mu", "server_rate"), _pulled, "fedavg", {"mu": 0.0}),
    "scaffold": Tunable("scaffold", ("server_rate",), _server_rates),
    "feddyn": Tunable("feddyn", ("alpha",), _duals),
    "cyclic": Tunable("cyclic", ("server_rate",), _server_rates),
    "fedavgm": Tunable("fedavgm", ("momentum", "server_rate"), _momentum, "fedavg", {"momentum": 0.0}),
    "fedavgm, nesterov": Tunable(
        "fedavgm", ("momentum", "server_rate"), _nesterov, "fedavg", {"momentum": 0.0, "nesterov": True}
    ),
}
