"""A method with memory from a checkpoint, run on the network's weights in long precision."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bounds import Case, Family
from ntkfl import MethodCertificate, Problem, Setup, Weights, certify_method
from ntkfl.connectivity.paths.long_sums import LONG, LONG_EPS

METHODS: dict[str, dict[str, Any]] = {
    "fl-ntk": {"server_rate": 1.3},
    "fedavg": {},
    "fedavgm": {"momentum": 0.6},
    "fedavgm, Nesterov": {"momentum": 0.6, "nesterov": True, "server_rate": 0.7},
    "fedprox": {"mu": 0.3},
    "scaffold": {},
    "scaffold, option I": {"option": "I"},
    "feddyn": {"alpha": 0.8},
}
KINDS = tuple(METHODS)
ROUNDS, PROBES = 40, 5


def named(kind: str) -> tuple[str, dict[str, Any]]:
    """The engine's name of a method, and its options."""
    return kind.split(",")[0], METHODS[kind]


class MethodRun:
    """The method itself, in long precision; `models` holds all models of the last round.

    It is written from the methods' papers, without the certificate's coefficients.
    """

    def __init__(
        self,
        problem: Problem,
        weights: Weights,
        kind: str,
        eta: float,
        steps: int,
        remembered: np.ndarray | None = None,
    ) -> None:
        self.name, self.options = named(kind)
        self.x, self.y = problem.x.astype(LONG), problem.y.astype(LONG)
        self.clients, self.eta, self.steps = problem.members, LONG(eta), steps
        self.signs = weights.signs.astype(LONG) / np.sqrt(LONG(len(weights.signs)))
        self.w = weights.hidden.astype(LONG)
        self.server = np.zeros_like(self.w)
        self.own = [np.zeros_like(self.w) for _ in self.clients]
        self.patterns = weights.hidden @ problem.x.T > 0
        self.frozen = True  # whether all gradients so far had the first patterns
        self.models = [self.w]
        if remembered is not None:
            part = [
                ((self.patterns[:, m] * remembered[m].astype(LONG)) @ self.x[m]) * self.signs[:, None]
                for m in self.clients
            ]
            if self.name == "fedavgm":
                self.server = sum(part[1:], part[0])
            else:
                self.own = [-own for own in part] if self.name == "scaffold" else part
                self.server = sum(self.own[1:], self.own[0]) / LONG(len(part))

    def gradient(self, w: np.ndarray, members: np.ndarray) -> np.ndarray:
        """The gradient of half the sum of squares over these samples."""
        z = self.x[members] @ w.T
        self.frozen &= bool(((z > 0).T == self.patterns[:, members]).all())
        left = self.y[members] - np.maximum(z, 0) @ self.signs
        return -((z > 0) * left[:, None]).T @ self.x[members] * self.signs[:, None]

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """The outputs of the server's model, (k,)."""
        return np.maximum(x @ self.w.T, 0) @ self.signs

    def residual(self) -> float:
        """|y - f|."""
        return float(np.linalg.norm((self.y - self.outputs(self.x)).astype(float)))

    def round(self) -> None:
        """One round of all clients and the server."""
        self.models = []
        ends = [self._client(c, members) for c, members in enumerate(self.clients)]
        moved, n = [w - self.w for w in ends], LONG(len(self.clients))
        rate = LONG(self.options.get("server_rate", 1.0))
        size = self.name in ("fedavg", "fedavgm", "fedprox")
        weight = [LONG(len(m)) / len(self.y) if size else 1 / n for m in self.clients]
        mean = sum((p * d for p, d in zip(weight, moved, strict=True)), np.zeros_like(self.w))
        if self.name == "fedavgm":
            self.server = LONG(self.options["momentum"]) * self.server + mean
            ahead = mean + LONG(self.options["momentum"]) * self.server if self.options.get("nesterov") else self.server
            self.w = self.w + rate * ahead
        elif self.name == "scaffold":
            fresh = [own - self.server - d / (self.steps * self.eta) for own, d in zip(self.own, moved, strict=True)]
            if self.options.get("option") == "I":
                fresh = [self.gradient(self.w, members) for members in self.clients]
            self.own, self.server = fresh, sum(fresh[1:], fresh[0]) / n
            self.w = self.w + rate * mean
        elif self.name == "feddyn":
            alpha = LONG(self.options["alpha"])
            self.own = [own - alpha * d for own, d in zip(self.own, moved, strict=True)]
            # the engine's h is the mean of the duals, with the same sign
            self.w = (sum(ends[1:], ends[0]) - sum(self.own[1:], self.own[0]) / alpha) / n
        else:
            self.w = self.w + rate * mean
        self.models.append(self.w)

    def _client(self, c: int, members: np.ndarray) -> np.ndarray:
        w = self.w.copy()
        for _ in range(self.steps):
            step = self.gradient(w, members)
            if self.name == "fedprox":
                step = step + LONG(self.options["mu"]) * (w - self.w)
            elif self.name == "scaffold":
                step = step - self.own[c] + self.server
            elif self.name == "feddyn":
                step = step + LONG(self.options["alpha"]) * (w - self.w) - self.own[c]
            w = w - self.eta * step
            self.models.append(w)
        return w


@dataclass(frozen=True, eq=False)
class MethodTraining(Case):
    """A network, a method with its steps, and 40 rounds."""

    problem: Problem
    weights: Weights
    setup: Setup
    kind: str
    seed: int
    longer: float = 1.0  # factor of the run's steps, relative to the certificate's
    remembered: float = 0.0  # size of the coefficients of the memory at the start

    @cached_property
    def certificate(self) -> MethodCertificate:
        """The certificate of the method from this network on, with an empty memory."""
        name, options = named(self.kind)
        return certify_method(self.problem, self.weights, self.setup, name, options)

    @cached_property
    def far(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Largest distance of a model from W* in each round; outputs less those of W* over |x|; the rounding of both.

        Raises:
            ArithmeticError: there is no W*.
        """
        try:
            point, nearest = self.certificate.claimed_point()
        except ValueError as error:
            raise ArithmeticError(str(error)) from None
        rng = np.random.default_rng([self.seed, 3])
        kept = self.remembered * rng.standard_normal(self.problem.n) if self.remembered else None
        eta = self.setup.eta_local * self.longer
        run = MethodRun(self.problem, self.weights, self.kind, eta, self.setup.local_steps, kept)
        probes = rng.standard_normal((PROBES, self.problem.d)).astype(LONG)
        probes /= np.sqrt((probes**2).sum(axis=1))[:, None]
        fitted = np.maximum(probes @ point.T, 0) @ run.signs
        farthest, changes = [], []
        for _ in range(ROUNDS):
            changes.append(np.abs(run.outputs(probes) - fitted).astype(float))
            start = run.w
            run.round()
            farthest.append(max(float(np.sqrt(((w - point) ** 2).sum())) for w in (start, *run.models[:-1])))
        rounding = float(256 * LONG_EPS * np.sqrt((point**2).sum())) + 2 * nearest.slack
        return np.array(farthest), np.array(changes), rounding

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        return {"method": self.kind, "n": self.problem.n, "m": len(self.weights.signs)}


def method_case(seed: int, kind: str, distance: float, width: int, **broken: float) -> MethodTraining:
    """Two to five samples on two clients, labels at `distance` from the outputs, three local steps of .3."""
    rng = np.random.default_rng([seed, 23])
    n, d = int(rng.integers(2, 6)), 6
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    weights = Weights(rng.standard_normal((width, d)), rng.choice([-1.0, 1.0], width))
    direction = rng.standard_normal(n)
    y = weights.outputs(x) + distance * direction / np.linalg.norm(direction)
    problem = Problem(x, y, np.append(np.zeros(n - 1, int), 1), name="small networks, methods")
    return MethodTraining(problem, weights, Setup(width=width, eta_local=0.3, local_steps=3), kind, seed, **broken)


def _small(seed: int) -> MethodTraining:
    return method_case(seed, KINDS[seed % len(KINDS)], 10.0 ** -(3 + seed // len(KINDS) % 3), 64)


ANY_METHOD = st.builds(
    method_case, st.integers(0, 2**31), st.sampled_from(KINDS), st.floats(1e-6, 1e-2), st.integers(16, 64)
)
SMALL_METHODS = Family("small networks, methods", _small, ANY_METHOD, trials=24)
