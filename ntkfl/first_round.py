"""The first round whose residual is small: exact although the Euclidean norm of the residual is not monotone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from ntkfl.round_modes import EXACT_INTEGERS, RoundModes, decay

_CHUNK = 64  # rounds evaluated by one matrix product


def first_round_within(modes: RoundModes, initial: Float[np.ndarray, "n C"], target: float) -> int:
    """First t with |r(t)|_F <= target, up to the rounding of that comparison.

    With r(t) = rest + G (d^t z) and |G| <= gain, |r(t+s) - r(t)| <= gain |(1 - d^s) d^t z|, which grows with s: rounds
    that this bound keeps above the target are skipped, all others are evaluated. Every mode must have d = 1, and then
    no drift, or |d| < 1.

    Raises:
        ValueError: the norm never falls that far, or not within 2^53 rounds.
    """
    rest, outward, x, z = _transient(modes, initial)
    size, pace, (least, gain) = np.linalg.norm(z, axis=1), np.minimum(x, 2 - x), modes.gain

    def still_above(t: int) -> bool:  # where nothing rests, gain_min |d^t z| bounds the norm from below and decreases
        return not rest.any() and least * float(np.linalg.norm(decay(pace, t) * size)) > target * (1 + 1e-6)

    t = _last_true(still_above)
    while t < EXACT_INTEGERS:
        powers = decay(x, t + np.arange(_CHUNK)[:, None])
        residuals = rest.T + np.tensordot(powers[:, None, :] * z.T, outward, axes=(2, 1))
        norms = np.sqrt((residuals**2).sum(axis=(1, 2)))
        hits = np.flatnonzero(norms <= target)
        if len(hits):
            return t + int(hits[0])
        left, slack = gain * np.abs(powers[-1]) * size, float(norms[-1] - target) * (1 - 1e-6)

        def out_of_reach(s: int, left=left, slack=slack) -> bool:
            change = np.where(x <= 1, 1 - decay(pace, s), x)  # of d^s from 1: at most 1 + |d| = x where d < 0
            return float(np.linalg.norm(change * left)) < slack

        t += _CHUNK + _last_true(out_of_reach)
    raise ValueError(
        f"the residual norm does not fall to {target:.6g} in any number of rounds below 2^53: "
        f"{np.linalg.norm(rest):.6g} of it lies where the Gram matrix is zero and stays for ever"
    )


def _transient(modes: RoundModes, initial: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The part of r(t) that rests, and the modes, rates x = 1 - d and coefficients of the part that moves."""
    w, moving = modes.drive @ initial, modes.nu != 0
    if modes.start is None:
        z = w[moving] / modes.nu[moving, None]
        rest = initial - modes.outward[:, moving] @ z
    else:
        z = modes.start[:, None] * w
        rest, z = modes.outward[:, ~moving] @ z[~moving], z[moving]
    return rest, modes.outward[:, moving], modes.rho * modes.nu[moving], z


def _last_true(holds: Callable[[int], bool]) -> int:
    """Largest s <= 2^53 up to which a predicate that turns false once still holds; 0 if it is false at 1."""
    low, high = 0, 1
    while high < EXACT_INTEGERS and holds(high):
        low, high = high, 2 * high
    if high >= EXACT_INTEGERS:
        return EXACT_INTEGERS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
