"""The number of rounds that a linear method needs, as a real number that depends continuously on the method's steps.

Searches over steps use this number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.limit.linear_regime import LinearRegime, mode_maps
from ntkfl.limit.matrix_free import MatrixFreeRegime

# With this number as s, the first 2^s rounds are checked one by one. After them, only the block of 2^s rounds in which
# the residual passes eps is checked round by round.
STRETCH = 6
POWERS_UP_TO = (
    300  # powers are taken of maps of up to this many rows; a larger map is first restricted to a Krylov space
)
SPACE = 160  # number of rounds that span a Krylov space
GROWN = 1e6  # a run stops when its residual is this many times the first residual
ROUNDING = 1e-12  # below this share of the first residual, rounding may make the residual rise
NEVER = 1e12  # the number of rounds that is returned for a residual that does not fall
# If the new part of an image is below this share of the image, it is rounding, and the space already contains all later
# states.
EXHAUSTED = 1e-13


def rounds_between(regime: LinearRegime, eps: float, at_most: int, small: int | None = None) -> float:
    """The number of rounds until the residual is eps times the labels.

    It is a real number, because the residual's logarithm is interpolated between whole rounds. If more than `at_most`
    rounds are needed, the number is extrapolated from the residual that is left after them. If a residual rises again
    for more than 64 rounds, it may have passed eps earlier than the number says. If part of the residual stays for
    ever, the residual's distance from that part counts in place of the residual.

    The run starts from outputs 0. Maps of up to `small` rows (POWERS_UP_TO if None) are raised to powers; larger maps
    are first restricted to their Krylov space.
    """
    labels = regime._labels
    if not labels.any():
        return 0.0
    with np.errstate(all="ignore"):  # steps may be unstable
        run = _Run.of(regime, small)
        whole = not isinstance(regime, MatrixFreeRegime)
        if whole and np.linalg.norm(regime.unreachable.T @ labels) > eps * np.linalg.norm(labels):
            run = replace(run, state=run.state - run.after(2 ** int(np.log2(at_most))))
        return run.crossing(eps, at_most)


def left_after(regime: LinearRegime, rounds: int) -> float:
    """The norm of the residual after `rounds` rounds, divided by the norm of the labels."""
    if not regime._labels.any():
        return 0.0
    with np.errstate(all="ignore"):
        run = _Run.of(regime)
        left = run.size(run.after(rounds)) / run.size(run.state)
    return left if left < NEVER else NEVER


def falls_on(regime: LinearRegime, rounds: int) -> bool:
    """Whether the residual after twice as many rounds is no larger than after `rounds` rounds.

    The answer True is evidence of stability, but no proof.
    """
    with np.errstate(all="ignore"):
        run = _Run.of(regime)
        after = replace(run, state=run.after(rounds))
        left, noise = run.size(after.state), ROUNDING * run.size(run.state)
        return bool(run.size(after.after(rounds)) <= max(left, noise) < np.inf)


@dataclass(frozen=True, eq=False)
class KrylovRounds:
    """Arnoldi's orthonormal basis V of v, M v, ..., M^(k-1) v.

    M is a round map and v the first state of an output. With the compressed map H = V^T M V, M^t v = V H^t V^T v. This
    is exact for t < k. For larger t the equation is as accurate as the space resolves the eigenvalues of M that matter
    for v.
    """

    maps: Float[np.ndarray, "C k k"]  # H
    state: Float[np.ndarray, "C k 1"]  # V^T v
    roots: Float[np.ndarray, "C k k"]  # R such that |R a| is the norm of the residual in the state V a

    @classmethod
    def of(cls, regime: LinearRegime, state: Float[np.ndarray, "s C"], steps: int) -> KrylovRounds:
        """The space of `steps` rounds for each column of the state; columns of zeros are left out."""
        starts = state[:, state.any(axis=0)].T
        rows, n = len(state), regime.problem.n
        steps = min(steps, rows)
        maps, first = np.zeros((len(starts), steps, steps)), np.zeros((len(starts), steps, 1))
        roots = np.zeros((len(starts), steps, steps))
        for column, start in enumerate(starts):
            basis, projected = np.zeros((rows, steps + 1), order="F"), np.zeros((steps + 1, steps))
            first[column, 0] = np.linalg.norm(start)
            basis[:, 0] = start / first[column, 0]
            for k in range(steps):
                interruption.check()
                image = regime.mapped(basis[:, k : k + 1])[:, 0]
                size = float(np.linalg.norm(image))
                # two passes are needed, since after one pass rounding leaves parts along the other vectors
                for _ in range(2):
                    parts = basis[:, : k + 1].T @ image
                    projected[: k + 1, k] += parts
                    image = image - basis[:, : k + 1] @ parts
                left = float(np.linalg.norm(image))
                if not left > EXHAUSTED * size:
                    break
                projected[k + 1, k] = left
                basis[:, k + 1] = image / left
            maps[column] = projected[:steps]
            small = np.linalg.qr(basis[:n, :steps], mode="r")
            roots[column, : len(small)] = small
        return cls(maps, first, roots)

    def residual_coordinates(self, states: Float[np.ndarray, "C k t"]) -> Float[np.ndarray, "m t"]:
        """For each state, along the last axis, a vector that has the norm of the state's residual."""
        return (self.roots @ states).reshape(-1, states.shape[2])


@dataclass(frozen=True, eq=False)
class _Run:
    """A state and the map of a round, in blocks that do not mix.

    There is a block for each mode, or one block in all.
    """

    step: Callable[[Float[np.ndarray, "m b C"]], Float[np.ndarray, "m b C"]]  # maps a state to the state after a round
    # gives the map, whose powers are then taken; None if single rounds take less work
    map: Callable[[], Float[np.ndarray, "m b b"]] | None
    state: Float[np.ndarray, "m b C"]
    # for each of several states, a vector with the norm of the state's residual
    residual: Callable[[Float[np.ndarray, "m b k"]], Float[np.ndarray, "n k"]]

    @classmethod
    def of(cls, regime: LinearRegime, small: int | None = None) -> _Run:
        """The run from outputs 0."""
        labels, n = regime._labels, regime.problem.n
        if isinstance(regime, MatrixFreeRegime) and regime.has_ritz:
            space = regime.ritz
            maps = mode_maps(regime.round, space.values.ravel())
            return cls(lambda state: maps @ state, lambda: maps, space.start(maps.shape[1]), space.residual_coordinates)
        if (modes := regime.modes) is not None:
            maps, residual_of = modes.maps, lambda states: modes.basis @ states[:, 0]
            return cls(lambda state: maps @ state, lambda: maps, modes.start(labels), residual_of)
        parts, residual_of = [labels, *regime._empty(labels)], lambda states: states[0, :n]
        if isinstance(regime, MatrixFreeRegime):
            ends = np.cumsum([len(part) for part in parts])

            def onward(state: np.ndarray) -> np.ndarray:
                residual, *memory, image = np.split(state[0], ends)
                move, after = regime.round.onward(residual, tuple(memory), image)
                image = regime.tiles @ move
                return np.concatenate([residual - image, *after, image])[None]

            return cls(onward, None, np.concatenate([*parts, np.zeros_like(labels)])[None], residual_of)
        state = np.concatenate(parts)[None]
        if regime._size > (POWERS_UP_TO if small is None else small):
            few = KrylovRounds.of(regime, state[0], SPACE)
            return cls(lambda state: few.maps @ state, lambda: few.maps, few.state, few.residual_coordinates)
        return cls(lambda state: regime.mapped(state[0])[None], lambda: regime.round_map[None], state, residual_of)

    def size(self, state: Float[np.ndarray, "m b C"]) -> float:
        """The norm of the residual in a state."""
        return float(np.linalg.norm(self.residual(state)))

    def after(self, rounds: int) -> Float[np.ndarray, "m b C"]:
        """The state after `rounds` further rounds."""
        if self.map is None:
            state, most = self.state, GROWN * self.size(self.state)
            for _ in range(rounds):
                interruption.check()
                state = self.step(state)
                if not self.size(state) < most:
                    return np.full_like(state, np.inf)
            return state
        power, state = self.map(), self.state
        while rounds:
            interruption.check()
            state = power @ state if rounds % 2 else state
            power, rounds = power @ power, rounds // 2
        return state

    def crossing(self, eps: float, at_most: int) -> float:
        """The number of rounds, as a real number, until the residual is eps times the first residual.

        Beyond at_most rounds the number is extrapolated.
        """
        state, rounds, first = self.state, 0, self.size(self.state)
        target, most = eps * first, GROWN * first
        if self.map is None:
            for rounds in range(1, at_most + 1):
                interruption.check()
                before, state = self.size(state), self.step(state)
                if not target < (now := self.size(state)) < most:
                    return rounds - 1 + _part(before, now, target) if now <= target else NEVER
            return _extrapolated(at_most, now / first, eps)
        powers = [self.map()]
        while target < (now := self.size(powers[-1] @ state)) < most and 2 ** len(powers) <= at_most:
            interruption.check()
            powers.append(powers[-1] @ powers[-1])
        if not now <= target:
            return _extrapolated(2 ** (len(powers) - 1), now / first, eps)
        for exponent in reversed(range(STRETCH, len(powers) - 1)):
            ahead = powers[exponent] @ state
            if self.size(ahead) > target:
                state, rounds = ahead, rounds + 2**exponent
        states = state
        for power in powers[: STRETCH + 1]:
            states = np.concatenate([states, power @ states], axis=2)
        residuals = self.residual(states)
        sizes = np.linalg.norm(residuals.reshape(len(residuals), -1, state.shape[2]), axis=(0, 2))
        at = int(np.argmax(sizes <= target)) or len(sizes) - 1
        return rounds + at - 1 + _part(sizes[at - 1], sizes[at], target)


def _extrapolated(rounds: int, left: float, eps: float) -> float:
    """The number of rounds until eps, extrapolated from the share `left` that is left after `rounds` rounds."""
    return min(NEVER, max(rounds, rounds * np.log(eps) / np.log(left))) if left < 1 else NEVER


def _part(before: float, after: float, target: float) -> float:
    """The fraction of a round after which the residual passes the target.

    The residual is `before` at the start of the round and `after` at its end.
    """
    return float(np.log(before / target) / np.log(before / max(after, np.finfo(float).tiny)))
