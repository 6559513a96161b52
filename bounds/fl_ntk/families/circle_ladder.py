"""A ladder of networks with H(0) = H_inf exactly, so that the remainder does not come from H(0) - H_inf."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from bounds import Case
from bounds.federated_run import FederatedRun, federated_run
from bounds.fl_ntk.terms.limit_kernel import printed_map, remainders
from ntkfl import Estimate, Problem, Setup, Weights
from ntkfl.algorithm1.reference import BALL
from ntkfl.balls import ball, enclosure, precision


@dataclass(frozen=True, eq=False)
class CircleLadder(Case):
    """Three points on the circle, neurons evenly spread over it, width 64 to 512: K = 3, eta_l = .4, two rounds.

    The angles between the points are multiples of 45 degrees. So the share of neurons that are active on two points
    equals the limit's share, and every neuron is farther from a kink than it moves. Only the points are rounded.
    """

    widths = (64, 128, 256, 512)

    @cached_property
    def runs(self) -> list[FederatedRun]:
        """One run in balls for each width."""
        return [self._run(width) for width in self.widths]

    def _run(self, width: int) -> FederatedRun:
        turn = 2 * np.pi * (np.arange(width) + 0.5) / width
        hidden = np.stack([np.cos(turn), np.sin(turn)], axis=1)
        signs = np.where(np.arange(width) % 2, 1.0, -1.0)
        at = np.pi / 4 * np.array([0, 1, 3])
        x = np.stack([np.cos(at), np.sin(at)], axis=1)
        weights = Weights(hidden, signs)
        residual = 1e-3 * np.array([1.0, 0.5, -0.5])
        problem = Problem(x, weights.outputs(x) + residual, np.array([0, 1, 0]), name="three points on the circle")
        setup = Setup(width, eta_local=0.4, local_steps=3, rounds=2)
        return federated_run(problem, setup, weights).with_arithmetic(BALL)

    @cached_property
    def remainders(self) -> Estimate:
        """|xi(0)| at each width, xi of I - rho H_inf."""
        return Estimate.stacked(remainders(run, printed_map(run))[0].norm() for run in self.runs)

    @cached_property
    def rate(self) -> Estimate:
        """The slope of log |xi(0)| against log m, by least squares, as a ball."""
        with precision():
            logs = [ball(float(width)).log() for width in self.widths]
            values = zip(self.remainders.value, self.remainders.error, strict=True)
            heights = [ball(float(value), float(error)).log() for value, error in values]
            off = [a - sum(logs, arb(0)) / len(logs) for a in logs]
            products = [a * height for a, height in zip(off, heights, strict=True)]
            return enclosure(sum(products, arb(0)) / sum((a * a for a in off), arb(0)))

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"problem": "three points on the circle, even neurons", "K": 3, "widths": list(self.widths)}
