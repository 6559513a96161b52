"""Cases of a federated method that trains a network from a checkpoint on, in long precision.

Some of these methods have a memory: vectors that the server or the clients keep from round to round. W* are weights
near the weights of the checkpoint, and with W* the network fits all labels. The certificate of the method bounds the
distance of later models from W*.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bounds import Case, Family
from bounds.cases.method_steps import METHODS, MethodSteps, named
from ntkfl import MethodCertificate, Problem, Setup, Weights, certify_method
from ntkfl.rounding import LONG, LONG_EPS

KINDS = tuple(METHODS)
ROUNDS, PROBES = 40, 5


class MethodRun(MethodSteps):
    """The method itself, in long precision and without the certificate. `models` has all models of the last round."""

    number = LONG

    def __init__(
        self,
        problem: Problem,
        weights: Weights,
        kind: str,
        eta: float,
        steps: int,
        remembered: np.ndarray | None = None,
    ) -> None:
        super().__init__(kind, problem.members, eta, steps)
        self.x, self.y = problem.x.astype(LONG), problem.y.astype(LONG)
        self.signs = weights.signs.astype(LONG) / np.sqrt(LONG(len(weights.signs)))
        self.at = weights.hidden.astype(LONG)
        self.server = np.zeros_like(self.at)
        self.own = [np.zeros_like(self.at) for _ in self.clients]
        self.patterns = weights.hidden @ problem.x.T > 0
        self.frozen = True  # whether all gradients so far had the activation patterns of the start
        self.models = [self.at]
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
        return np.maximum(x @ self.at.T, 0) @ self.signs

    def residual(self) -> float:
        """|y - f| on the training samples."""
        return float(np.linalg.norm((self.y - self.outputs(self.x)).astype(float)))

    def record(self, at: np.ndarray) -> None:
        """Append the model to `models`."""
        self.models.append(at)

    def round(self) -> None:
        """One round of all clients and the server."""
        self.models = []
        super().round()


@dataclass(frozen=True, eq=False)
class MethodTraining(Case):
    """A network, a method with its step sizes, and 40 rounds."""

    problem: Problem
    weights: Weights
    setup: Setup
    kind: str
    seed: int
    longer: float = 1.0  # the run's step size divided by the step size in the certificate
    remembered: float = 0.0  # standard deviation of the coefficients of the memory at the start

    @cached_property
    def certificate(self) -> MethodCertificate:
        """The certificate of the method from this network on, for an empty memory."""
        name, options = named(self.kind)
        return certify_method(self.problem, self.weights, self.setup, name, options)

    @cached_property
    def distances(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Two arrays with one entry or row for each round, and a bound of the rounding error of both arrays.

        The first array has the largest distance of a model from W*. The second array has |f(x) - f_W*(x)| at unit
        inputs x, where f is the network at the start of the round.

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
            start = run.at
            run.round()
            farthest.append(max(float(np.sqrt(((w - point) ** 2).sum())) for w in (start, *run.models[:-1])))
        rounding = float(256 * LONG_EPS * np.sqrt((point**2).sum())) + 2 * nearest.slack
        return np.array(farthest), np.array(changes), rounding

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        return {"method": self.kind, "n": self.problem.n, "m": len(self.weights.signs)}


def method_case(seed: int, kind: str, distance: float, width: int, **broken: float) -> MethodTraining:
    """Two to five samples on two clients, labels at `distance` from the outputs, and three local steps of size .3."""
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
