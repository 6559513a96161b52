"""Rounds of a linear method as a real number that varies with its steps, for searches; mostly by powers of its map."""

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.limit.linear_regime import LinearRegime
from ntkfl.memory import require

STRETCH = 6  # 2^6 rounds are looked at one by one; of more, the stretch of so many in which the residual passes eps
SMALL = 200  # rows of a round map whose powers cost less than rounds do; of more, than as many rounds
GROWN = 1e6  # times the first residual, from where no more is looked at
NEVER = 1e12  # rounds of what does not fall


def rounds_between(regime: LinearRegime, eps: float, at_most: int) -> float:
    """Rounds until the residual is eps times the labels, between two whole numbers by the residual's logarithm.

    Beyond at_most rounds the number is extrapolated from the share of the residual that is left. A residual that rises
    again for more than 64 rounds may pass eps earlier. If part of the residual stays for ever, its distance from that
    part counts in its place.

    The run starts from outputs 0.
    """
    labels = regime._labels
    if not labels.any():
        return 0.0
    with np.errstate(all="ignore"):  # steps may be unstable
        state = _start(regime)
        if np.linalg.norm(regime.unreachable.T @ labels) > eps * np.linalg.norm(labels):
            state = state - _after(regime, state, 2 ** int(np.log2(at_most)))
        return _crossing(regime, state, eps, at_most)


def left_after(regime: LinearRegime, rounds: int) -> float:
    """The residual after so many rounds, over the labels."""
    if not regime._labels.any():
        return 0.0
    with np.errstate(all="ignore"):
        state = _start(regime)
        left = _size(regime, _after(regime, state, rounds)) / _size(regime, state)
    return left if left < NEVER else NEVER


def _start(regime: LinearRegime) -> Float[np.ndarray, "s C"]:
    require(
        "powers of the round map", lambda n: 8 * 20 * (n * regime._size / regime.problem.n) ** 2, n=regime.problem.n
    )
    return np.concatenate([regime._labels, *regime._empty(regime._labels)])


def _size(regime: LinearRegime, state: Float[np.ndarray, "s C"]) -> float:
    return float(np.linalg.norm(state[: regime.problem.n]))


def _after(regime: LinearRegime, state: Float[np.ndarray, "s C"], rounds: int) -> Float[np.ndarray, "s C"]:
    power = regime.round_map
    while rounds:
        interruption.check()
        state = power @ state if rounds % 2 else state
        power, rounds = power @ power, rounds // 2
    return state


def _crossing(regime: LinearRegime, state: Float[np.ndarray, "s C"], eps: float, at_most: int) -> float:
    first, rounds = _size(regime, state), 0
    target, most = eps * first, GROWN * first
    if len(state) > SMALL and at_most <= len(state):
        for rounds in range(1, at_most + 1):
            interruption.check()
            before, state = _size(regime, state), regime.mapped(state)
            if not target < (now := _size(regime, state)) < most:
                return rounds - 1 + _part(before, now, target) if now <= target else NEVER
        return _extrapolated(at_most, now / first, eps)
    powers = [regime.round_map]
    while target < (now := _size(regime, powers[-1] @ state)) < most and 2 ** len(powers) <= at_most:
        interruption.check()
        powers.append(powers[-1] @ powers[-1])
    if not now <= target:
        return _extrapolated(2 ** (len(powers) - 1), now / first, eps)
    for exponent in reversed(range(STRETCH, len(powers) - 1)):
        ahead = powers[exponent] @ state
        if _size(regime, ahead) > target:
            state, rounds = ahead, rounds + 2**exponent
    states = state
    for power in powers[: STRETCH + 1]:
        states = np.concatenate([states, power @ states], axis=1)
    residuals = states[: regime.problem.n].reshape(regime.problem.n, -1, state.shape[1])
    sizes = np.linalg.norm(residuals, axis=(0, 2))
    at = int(np.argmax(sizes <= target)) or len(sizes) - 1
    return rounds + at - 1 + _part(sizes[at - 1], sizes[at], target)


def _extrapolated(rounds: int, left: float, eps: float) -> float:
    """Rounds to eps, extrapolated from the share that is left after so many rounds."""
    return min(NEVER, max(rounds, rounds * np.log(eps) / np.log(left))) if left < 1 else NEVER


def _part(before: float, after: float, target: float) -> float:
    """The part of a round until the residual passes the target within it."""
    return float(np.log(before / target) / np.log(before / max(after, np.finfo(float).tiny)))
