"""The first round whose residual is small: exact although the Euclidean norm of the residual is not monotone."""

from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.limit.round_modes import EXACT_INTEGERS, RoundModes, decay, geometric_sum

_CHUNK = 64  # rounds evaluated by one matrix product


def first_round_within(modes: RoundModes, initial: Float[np.ndarray, "n C"], target: float) -> int:
    """First t with |r(t)|_F <= target, up to the rounding of that comparison.

    r(t+s) - r(t) = -outward (energy g_s d^t w), and the norm of that is at most gain |energy g_s d^t w|, which grows
    with s: rounds that this bound keeps above the target are skipped, all others are evaluated. Every mode must have
    0 <= rho nu < 2.

    Raises:
        ValueError: the norm never falls that far, or not within 2^53 rounds.
    """
    x, w, (least, gain) = modes.rho * modes.nu, modes.drive @ initial, modes.gain
    size, pace = np.linalg.norm(w, axis=1), np.minimum(x, 2 - x)
    start = None if modes.start is None else np.linalg.norm(modes.start @ initial, axis=1)

    def still_above(t: int) -> bool:  # where the modes span the residual, gain_min |d^t z| bounds it from below
        return start is not None and least * float(np.linalg.norm(decay(pace, t) * start)) > target * (1 + 1e-6)

    t = _last_true(still_above)
    while t < EXACT_INTEGERS:
        interruption.check()
        norms = np.linalg.norm(modes.residual(initial, t + np.arange(_CHUNK)), axis=(1, 2))
        hits = np.flatnonzero(norms <= target)
        if len(hits):
            return t + int(hits[0])
        left, slack = gain * np.abs(decay(x, t + _CHUNK - 1)) * size, float(norms[-1] - target) * (1 - 1e-6)

        def out_of_reach(s: int, left=left, slack=slack) -> bool:
            sums = np.where(x <= 1, geometric_sum(modes.nu, modes.rho, s), modes.rho)  # (1 + |d|) / nu where d < 0
            return float(np.linalg.norm(modes.energy * sums * left)) < slack

        t += _CHUNK + _last_true(out_of_reach)
    raise ValueError(
        f"the residual norm does not fall to {target:.6g} in any number of rounds below 2^53: "
        f"{np.linalg.norm(_rest(modes, initial)):.6g} of it lies where the round changes nothing (where the Gram "
        "matrix is zero, or where an even number of local steps ends as it began) and stays for ever"
    )


def _rest(modes: RoundModes, initial: np.ndarray) -> np.ndarray:
    """The part of the residual that no round changes."""
    moving = modes.nu != 0
    if modes.start is not None:
        return modes.outward[:, ~moving] @ (modes.start[~moving] @ initial)
    return initial - modes.outward[:, moving] @ (modes.drive[moving] @ initial / modes.nu[moving, None])


def _last_true(holds: Callable[[int], bool]) -> int:
    """Largest s <= 2^53 up to which a predicate that turns false once still holds; 0 if it is false at 1."""
    high = 1
    while high < EXACT_INTEGERS and holds(high):
        interruption.check()
        high *= 2
    return bisect_left(range(1, high + 1), True, key=lambda s: not holds(s))
