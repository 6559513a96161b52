"""The case of FedGuCci on a model that is linear in its weights, in exact rationals or in two precisions."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp
from flint import arb, fmpq

from bounds import Case, Hypothesis
from bounds.formula import evaluate
from bounds.symbols import K, eta_global, eta_local
from ntkfl.balls import ball, enclosure, precision
from ntkfl.connectivity.linear_rounds import LinearRounds, double, extended, fedavg, fedgucci, rational
from ntkfl.estimate import Estimate, Rigour

BITS = 512
EPS = np.finfo(float).eps
SAFETY = 10  # the error of the run in coarser precision is this factor times its difference from the finer run

beta = sp.Symbol("beta", positive=True)
BETA = {beta: "weight of the connectivity loss"}


@dataclass(frozen=True, eq=False)
class LinearCase(Case):
    """A run of FedGuCci(beta) with `anchors` anchor models.

    If `exact`, the run is in rational arithmetic, which suits few weights and rounds. Otherwise it is in float64, and a
    run in extended precision measures its rounding error.
    """

    run: LinearRounds
    beta: float
    anchors: int = 1
    exact: bool = False
    name: str = "a linear model"

    @cached_property
    def global_weights(self) -> Estimate:
        """w_1 .. w_T of FedGuCci, (T, p)."""
        return self._known(*(fedgucci(self.run, self.beta, self.anchors, how)[1:] for how in self._arithmetics))

    def fedavg_weights(self, local: Any, server: Any, pull: Any = 0) -> Estimate:
        """The weights w_1 .. w_T of FedAvg, (T, p), with these step sizes, which are sympy numbers.

        `pull` moves the clients' starts towards the mean of the anchors, as in `linear_rounds.fedavg`. It is 0 for
        plain FedAvg.
        """
        weights = []
        with precision(BITS):
            for how in self._arithmetics:
                rates = [_number(rate, how) for rate in (local, server, pull)]
                pulled = {"pull": rates[2], "anchors": self.anchors, "arithmetic": how}
                weights.append(fedavg(self.run, *rates[:2], **pulled)[1:])
        return self._known(*weights)

    def client_moves(self, connected: bool) -> Estimate:
        """w_c - w_0 for each participant of the first round, (clients, p).

        The method is FedGuCci if `connected`, otherwise FedAvg.
        """
        moves = []
        for how in self._arithmetics:
            ends = [
                fedgucci(run, self.beta, 1, how) if connected else fedavg(run, run.eta_local, 1, arithmetic=how)
                for run in [_alone(self.run, c) for c in self.run.participants[0]]
            ]
            moves.append(np.stack([path[1] - path[0] for path in ends]))
        return self._known(*moves)

    def client_residual(self, trained: bool) -> Estimate:
        """f - y of the first participant on its own samples in round 1.

        If `trained`, f are the outputs after the participant's local steps; otherwise f are the outputs before these
        steps.
        """
        run = _alone(self.run, self.run.participants[0][0])
        residuals = []
        for how in self._arithmetics:
            w = fedgucci(run, self.beta, 1, how)[1] if trained else how(run.start)
            residuals.append(how(run.features) @ w - how(run.labels))
        return self._known(*residuals)

    @property
    def steps(self) -> dict:
        """The values of beta, the step sizes and the number of local steps, by symbol."""
        run = self.run
        return {beta: self.beta, eta_local: run.eta_local, eta_global: run.eta_global, K: run.local_steps}

    @property
    def largest_curvature(self) -> Estimate:
        """The largest eigenvalue of scale_c phi_c phi_c^T over the first round's participants, for the squared loss."""
        run, curvature = self.run, 0.0
        for c in run.participants[0]:
            phi = run.features[np.asarray(run.owner) == c]
            curvature = max(curvature, float(run.scale[c] * np.linalg.norm(phi, 2) ** 2))
        return Estimate(curvature, (16 + sum(run.features.shape)) * EPS * curvature, "rounding bound")

    @property
    def _arithmetics(self) -> tuple:
        return (rational,) if self.exact else (double, extended)

    def _known(self, value: np.ndarray, finer: np.ndarray | None = None) -> Estimate:
        """An array as an Estimate.

        If there are finer values, the array is in float64 and its error is computed from them. Otherwise it has
        exact numbers, which are rounded to the nearest floats.
        """
        if finer is not None:
            error = SAFETY * float(np.abs(value - finer).max()) + 4 * EPS * np.abs(value)
            return Estimate(value, error, "float64 against extended precision")
        with precision(BITS):
            flat = enclosure([arb(v) for v in value.ravel()])
        return Estimate(flat.value.reshape(value.shape), flat.error.reshape(value.shape), "ball", Rigour.ENCLOSED)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        run = self.run
        return {
            "problem": self.name,
            "n": len(run.labels),
            "p": len(run.start),
            "N": len(run.weights),
            "K": run.local_steps,
            "T": len(run.participants),
            "beta": self.beta,
            "anchors": self.anchors,
            "eta_local": run.eta_local,
            "eta_global": run.eta_global,
        }


def _number(value: Any, arithmetic: Any) -> Any:
    """A sympy number in the arithmetic of a run.

    In rational arithmetic a rational stays exact, and any other number becomes a ball. In the other arithmetics the
    number is rounded.
    """
    value = sp.sympify(value)
    if arithmetic is rational and value.is_Rational:
        return fmpq(int(value.p), int(value.q))
    evaluated = evaluate(value, {})
    if arithmetic is rational:
        return ball(float(evaluated.value), float(evaluated.error))
    # `evaluated` encloses the number. The run in double arithmetic takes the middle of this enclosure. The finer run
    # takes the upper end, so that the width of the enclosure is part of the runs' difference.
    return float(evaluated.value) if arithmetic is double else extended(evaluated.value) + extended(evaluated.error)


def _alone(run: LinearRounds, client: int) -> LinearRounds:
    """One round with a single client, whose model becomes the server's."""
    own = np.flatnonzero(np.asarray(run.owner) == client)
    return replace(
        run,
        features=run.features[own],
        labels=run.labels[own],
        owner=np.zeros(len(own), int),
        scale=run.scale[client : client + 1],
        weights=np.ones(1),
        participants=((0,),),
        eta_global=1.0,
    )


ONE_ANCHOR = Hypothesis("one-anchor", "the only anchor is the current global model", lambda case: 1 - case.anchors)
SQUARED_LOSS = Hypothesis("squared-loss", "the loss is the squared one", lambda case: 2 - case.run.degree)
NO_DECAY = Hypothesis("no-weight-decay", "the clients' objective has no weight decay", lambda case: -case.run.decay)


THREE_SAMPLES = LinearRounds(
    features=np.array([[1.0, 0.5], [0.25, 1.0], [-0.5, 1.0]]),
    labels=np.array([1.0, -0.5, 0.75]),
    owner=np.array([0, 0, 1]),
    scale=np.array([1.0, 2.0]),
    weights=np.array([2.0, 1.0]),
    start=np.array([0.5, -0.25]),
    participants=((0, 1), (0, 1), (0, 1)),
    eta_local=0.25,
    eta_global=1.0,
    local_steps=2,
)


def small_case(beta: float = 2.0, anchors: int = 1, **changed: Any) -> LinearCase:
    """Two clients with three samples, and a model of two weights, for three rounds in rational arithmetic."""
    return LinearCase(replace(THREE_SAMPLES, **changed), beta, anchors, exact=True, name="three samples")


def quartic_loss() -> LinearCase:
    """A case with the fourth power of the residual in place of the square. Its gradient is not affine."""
    return small_case(degree=4, participants=((0, 1),))


def weight_decay() -> LinearCase:
    """A case with weight decay towards 0, whose step size is not rescaled."""
    return small_case(decay=0.25)
