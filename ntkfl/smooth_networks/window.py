"""The inequalities of the theorem of `ntkfl.smooth_networks`, in balls about the checkpoint.

A few norms bound the effect of every window of training.

Source: docs/proofs/smooth_networks.md#the-certificate
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np
from flint import arb
from jaxtyping import Int

from ntkfl import interruption
from ntkfl.balls import ball, precision
from ntkfl.smooth_networks.passes import Curvature

GROWTH = 1.02  # factor by which the radius of a ball that was too small is increased
TRIES = 400
Proved = TypeVar("Proved")


@dataclass(frozen=True)
class Start:
    """Bounds at the checkpoint, all rounded so that they stay valid."""

    least_root: float  # lower bound of the smallest singular value of J
    largest: float  # upper bound of the largest eigenvalue of J J'
    entries: float  # upper bound of the largest eigenvalue of the matrix of absolute values of J J'
    gradients: float  # upper bound of |J| in the Frobenius norm
    curvature: Curvature  # bounds of the second derivatives
    kept: Int[np.ndarray, " k"] | None = None  # indices of the samples that the certificate uses; None for all samples
    # whether a loss is minimal on an interval of outputs; False if it is minimal at one output alone, as squares are
    intervals: bool = False


@dataclass(frozen=True)
class Window:
    """The conclusions about all windows of training with steps up to `step`, rounded so that they stay valid."""

    step: float  # eta
    ball: float  # rho, the radius of the ball in which curvature is bounded
    distance: float  # d: a fit is within this distance of the checkpoint
    reach: float  # no model gets farther than this from the checkpoint
    # A window without means, with exactly this step, multiplies the squared distance to the fits by at most
    # 1 - step (alpha - beta).
    alpha: float
    beta: float


@dataclass(frozen=True)
class Rounds:
    """The conclusions about all rounds, rounded so that they stay valid."""

    rate: float  # upper bound of the factor by which every round multiplies a norm of residual and memory
    last_rate: float  # upper bound of the limit of this factor
    reach: float  # no model gets farther than this from the checkpoint
    ball: float  # rho, the radius of the ball in which curvature is bounded


@dataclass(frozen=True)
class Failed:
    """The reason why the theorem's inequalities fail in a ball, and a radius that may suffice. The radius is 0 if no
    larger ball helps.
    """

    why: str
    larger: float = 0.0


def window(start: Start, residual: float, step: float, visits: float) -> Window | str:
    """The conclusions in the smallest ball found in which the theorem holds, or the failure in the last ball tried."""
    if not start.least_root > 0:
        return "the smallest eigenvalue of J J' is not known to be positive"
    radius = 3 * residual / start.least_root * (1 + 1e-9) + 1e-150
    return smallest_ball(lambda rho: in_ball(start, residual, step, visits, rho), radius)


def smallest_ball(attempt: Callable[[float], Proved | Failed], radius: float) -> Proved | str:
    """The conclusions in the first ball that is large enough, or the last failure; a failure may have a larger radius
    to try.
    """
    why = ""
    for _ in range(TRIES):
        interruption.check()
        outcome = attempt(radius)
        if not isinstance(outcome, Failed):
            return outcome
        if not outcome.larger:
            return outcome.why
        why, radius = outcome.why, outcome.larger * GROWTH
    return why


def in_ball(start: Start, residual: float, step: float, visits: float, radius: float) -> Window | Failed:
    """The conclusions if the theorem holds in this ball, otherwise the failure."""
    crossed = at_a_kink(start.curvature, radius, start.kept)
    if crossed is not None:
        return crossed
    separate, together = start.curvature.of_both(radius)
    return inequalities(
        start, float(np.sqrt((separate**2).sum()) * (1 + 1e-9)), together, residual, step, visits, radius
    )


def at_a_kink(curvature: Curvature, radius: float, kept: Int[np.ndarray, " k"] | None = None) -> Failed | None:
    """The failure, with the neuron's layer and a sample, if a neuron may reach its kink in the ball; otherwise None."""
    crossing = curvature.crossing(radius)
    if not crossing.any():
        return None
    layer, output = (int(index) for index in np.argwhere(crossing)[0])
    kink, sample = curvature.layers[layer].activation.kink, output // len(curvature.layers[-1].weight)
    return Failed(
        f"a neuron of layer {curvature.layers[layer].name} may reach its kink {f'at {kink:g} ' if kink else ''}in the "
        f"ball of radius "
        f"{radius:.3g}, for sample {sample if kept is None else kept[sample]}"
    )


def inequalities(
    start: Start, separate: float, together: float, residual: float, step: float, visits: float, radius: float
) -> Window | Failed:
    """The certificate's inequalities for given curvatures."""
    if not np.isfinite([separate, together, residual, radius]).all():
        return Failed("the bounds overflow")
    with precision():
        rho, eta, v, bend, turn = map(ball, (radius, step, visits, separate, together))
        s = ball(start.least_root) - turn * rho
        if not s > 0:
            return Failed(
                f"gradients may turn by {together * radius:.3g} in the ball of radius {radius:.3g}, and the smallest "
                f"singular value of J is only {start.least_root:.3g}"
            )
        eps = 2 - eta * (ball(start.largest).sqrt() + turn * rho) ** 2
        if not eps > 0:
            return Failed(f"the step {step:.3g} is too long: it must be below {2 / start.largest:.3g}")
        moves = ball(start.entries) + 2 * rho * ball(start.gradients) * bend + (rho * bend) ** 2
        kappa = 1 + v.sqrt() * eta * moves
        d = ball(residual) / s
        bent = v * bend**2 / (2 * eps)
        root = 1 - 4 * eta * bent * d**2
        if not root > 0:
            return Failed(f"models may be {float(d):.3g} from a fit, too far for such second derivatives")
        away = 2 / (1 + root.sqrt())  # E^2 / d^2, where the models of a window are within the distance E of a fit
        alpha, beta = eps / 2 * (s / kappa) ** 2, bent * (away * d) ** 2
        if not alpha > beta:
            return Failed(
                f"a window may raise the squared distance to the fits by {float(eta * beta):.3g} of itself, and is "
                f"sure to lower it by {float(eta * alpha):.3g} only"
            )
        farthest = d * away.sqrt()
        if start.intervals:
            turning, added = 1 - turn * d / s, 2 * (2 * v * alpha / eps).sqrt() * bend * d / (alpha - beta)
            under = (1 - added) ** 2 - 4 * eta * bent * d**2
            if not (turning > 0 and added < 1 and under > 0):
                return Failed(f"models may be {float(d):.3g} from a fit, from which windows may lead them too far away")
            spread = d * (2 / (1 - added + under.sqrt())).sqrt()
            reach, wanted = d + spread, d + (d + spread).max(spread / turning.sqrt() + farthest)
        else:
            turning = 1 - 2 * turn * farthest / s
            if not turning > 0:
                return Failed(f"models may be {float(farthest):.3g} from a fit, where gradients may turn too much")
            drift = (v * away * 2 / eps).sqrt() * bend * d**2 * alpha.sqrt() / (alpha - beta) / turning
            reach, wanted = d + drift + farthest, d + drift + 2 * farthest
        if not wanted < rho:
            return Failed(f"models may move farther than {radius:.3g}", upper_end(wanted))
        return Window(step, radius, upper_end(d), upper_end(reach), -upper_end(-alpha), upper_end(beta))


def largest_step(start: Start, residual: float, visits: float, halvings: int) -> Window | str:
    """The conclusions for the largest step 2^-k / `largest`, k <= `halvings`, for which the theorem holds.

    The theorem then holds for all smaller steps.
    """

    @cache
    def at(k: int) -> Window | str:
        return window(start, residual, _step(start, k), visits)

    if isinstance(at(halvings), str):
        return at(halvings)
    return at(interruption.first(lambda k: not isinstance(at(k), str), -1, halvings))


def needed_residual(start: Start, visits: float, step: float | None, halvings: int, below: float) -> float:
    """An estimate of the largest residual with which a checkpoint with this kernel and these second derivatives would
    be certified.
    """
    eta = _step(start, halvings) if step is None else step
    return largest_residual(lambda residual: not isinstance(window(start, residual, eta, visits), str), below)


def largest_residual(fine: Callable[[float], bool], below: float, least: float = 0.0) -> float:
    """An estimate, by bisection, of the largest residual for which the theorem holds; 0 if it is below `least`."""
    if not fine(least):
        return 0.0
    low, high = 0.0, below
    for _ in range(60):
        middle = float(np.sqrt(low * high)) if low else high / 1024
        if middle <= 1e-140 or high <= 1.01 * low:
            break
        low, high = (middle, high) if middle <= least or fine(middle) else (low, middle)
    return low


def _step(start: Start, halvings: int) -> float:
    return float(np.ldexp(1 / start.largest, -halvings))


def upper_end(x: arb) -> float:
    """A float that is at least the upper end of an interval of python-flint (a "ball", a midpoint with a radius)."""
    return float(np.nextafter(float(x.upper()), np.inf))
