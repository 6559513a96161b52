"""Error bounds for methods that remember one vector and whose steps change.

The errors are measured in a norm that hardly grows in a round. The errors are written as a position y and a motion m,
and m is a multiple of the error of the method's memory. A round maps y and m by m <- (1 - p) m - A H y - B H m, and
then y <- y + m with the new m. Here p, A and B are functions of H_D, which holds the clients' own blocks of H and is 0
elsewhere. Let S = 1 / A and C = B / A. With suitable numbers c and h and a function K of H_D, rounds of the same steps
do not lengthen the norm whose square is

    |y + c m|_H^2 + m' (K - h H) m,   where |v|_H^2 = v' H v and ' transposes.

If the steps change, S and K change too. Where no such numbers are found, as for steps beyond the limit, a round
lengthens the norm by at most a known factor.

Source: docs/proofs/linear_methods.md#errors-of-methods-that-remember-where-steps-change.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.limit.carried_errors import SAFE, Carried, Margins, RunState, further, lost_in
from ntkfl.limit.feedback import Feedback
from ntkfl.limit.linear_round import LinearRound
from ntkfl.limit.round_modes import ClientModes

SAMPLED, ROUNDS = 64, 16  # a search for constants looks at this many eigenvalues of a round, and at this many rounds
ROUNDING = 1e-12  # a number of order 1 counts as positive only if its computed value is above this
# Added to theta, where (1 + theta)^(1/2) is the factor by which a round lengthens the norm. This factor is proved by a
# test whether matrices are positive definite, and with the addition rounding does not decide the test.
LOOSE = 1e-6
INFINITE = 1e300  # stands for infinity, because a search subtracts values from each other
REFUSED = "no error bound is proved for these steps"


class Steps(NamedTuple):
    """The steps of a round, with the parts of the round's regime that a norm needs."""

    round: LinearRound
    margins: Margins
    largest: Callable[[np.ndarray], float]  # as in `Gains.of`


class Constants(NamedTuple):
    """The numbers of the norm, which all rounds may share."""

    shift: float  # c
    subtracted: float  # h
    # sigma: the factor of m'Hm - (Hm)' Lambda^-1 Hm >= 0 in the proof, where H <= Lambda; only used if C is not one
    # number
    sigma: float = 0.0

    @property
    def move_weight(self) -> float:
        """w = (1 + c)^2 - h, the factor of |m|_H^2 in the squared norm if y = m, e.g. after a motion from y = 0."""
        return (1 + self.shift) ** 2 - self.subtracted


@dataclass(frozen=True, eq=False)
class Motion:
    """A round's motion, given by values at the eigenvalues q of the clients' blocks."""

    feedback: Feedback
    scale: Float[np.ndarray, " n"]  # S
    friction: Float[np.ndarray, " n"]  # p
    ahead: Float[np.ndarray, " n"]  # C
    most: Float[np.ndarray, " n"]  # values u(q) of a function such that H <= u(H_D) S
    # distances of the exact values from the computed S, p and C; the distance from S is relative to S
    scale_error: float
    friction_error: float
    ahead_error: float

    @classmethod
    def of(cls, steps: Steps, clients: ClientModes) -> "Motion":
        """The motion of a round.

        Raises:
            ValueError: it is not sure that the clients' steps contract, or the steps are too large.
        """
        feedback, local = steps.round.feedback, steps.margins.local
        assert feedback is not None
        spectrum, wobble = feedback.spectrum, feedback.wobble(local)
        p, b = spectrum.zero, spectrum.pole
        relative = wobble.scale + 2 * wobble.pole / float(b.min()) if spectrum.known else np.inf
        if not (relative < 0.1 and p.max() + 2 * wobble.zero < 2):
            raise ValueError(f"{REFUSED}: clients' steps do not surely contract")
        scale, ahead = spectrum.scale / (feedback.gram_factor * b), 1 / b - 1
        ahead_error = 2 * wobble.pole / float(b.min()) ** 2
        # a factor that covers the errors of S, of w(q) and of S w(q) = (1 + 2 C) / (2 - p) at each eigenvalue q
        loose = (1 + 4 * (wobble.zero / float((2 - p).min()) + 2 * ahead_error)) / (1 - relative)
        # if p and C are single numbers, rounds are stable while H is below 2 / weight
        weight, most = feedback.weights, clients.values + local.blocks
        top = clients.sum_of_largest(most * weight) * loose
        if top >= 2:
            top = min(top, steps.largest(weight) + local.size * wobble.weights)
        bounds = [len(clients.members) * most / scale * loose, top / (weight * scale) * loose]
        best = min(bounds, key=lambda values: float((values * scale * weight).max()))
        return cls(feedback, scale, p, ahead, best, relative / (1 - relative), wobble.zero, ahead_error)

    def room(self, constants: Constants) -> float:
        """The smallest of several numbers; if it is positive, no round lengthens the norm."""
        if constants.move_weight < 0 or constants.subtracted < 0 or constants.sigma < 0:
            return min(constants.move_weight, constants.subtracted, constants.sigma) - 10.0
        weights, room = self.weights(constants)
        return float(np.minimum(np.minimum(room, weights), weights - constants.subtracted * self.most).min())

    @property
    def even(self) -> float | None:
        """C, if it is a single number."""
        return float(self.ahead[0]) if np.ptp(self.ahead) == 0 and self.ahead_error < 1e-12 else None

    def weights(self, constants: Constants) -> tuple[np.ndarray, np.ndarray]:
        """K / S, and numbers that prove, if they are positive, that a round does not lengthen the norm."""
        c, h, sigma = constants
        p, ahead = self.friction, self.ahead
        if not sigma:
            # Let n be the new m. A round lowers the squared norm by C |n - m|^2 in the metric (2 - p) S - (C + 1/2) H
            # plus |n + m|^2 in the metric p S / 2. The second metric must be positive, and the first too if C is not 0.
            if self.even is None or c != self.even - 0.5:  # the closed form needs a C that is one number
                return np.ones(len(p)), np.full(len(p), -10.0)
            lost = self.friction_error + (2 + 3 * abs(c)) * self.ahead_error * self.most
            room, along = p - lost, 2 - p - lost - (ahead + 0.5) * self.most
            return 1 + c * p, np.minimum(room, along) if self.even else room
        e, w = c**2 - h, constants.move_weight
        off = (2 + 3 * abs(c)) * (self.friction_error + self.ahead_error)
        third = sigma / self.most - off
        across, along = (1 + c) * ahead, (e - 2 * c * ahead - sigma) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            first = 2 * (1 + c) - w * self.most - across**2 / third
            second = 2 * c * (1 - p) - along**2 / third
            mixed = -((1 + c) * (1 - p) + c) - across * along / third
        room = (first + second) / 2 - np.abs(mixed) - off
        return (first - second) / 2, np.where(third > 0, room, np.minimum(third, 0.0) - 10.0)

    def lengthened(self, constants: Constants) -> tuple[np.ndarray, float]:
        """K / S, and an upper bound of the factor by which a round lengthens the norm.

        The factor is infinite if no bound is proved.
        """
        (_, h, sigma), most, none = constants, self.most, (np.ones(len(self.most)), np.inf)
        if min(constants.move_weight, h) < 0 or sigma <= 0 or not np.isfinite(own := self.weights(constants)[0]).all():
            return none
        weights = np.maximum(own, np.maximum(1.05 * h * most, 0.05))
        change, size = self._changes(constants, weights), self._sizes(constants, weights)
        try:
            inverse = np.linalg.inv(np.linalg.cholesky(size))
        except np.linalg.LinAlgError:
            return none
        turned = np.linalg.eigvalsh(inverse @ change @ inverse.swapaxes(1, 2))
        more = max(0.0, -float(turned[:, 0].min())) * (1 + LOOSE) + LOOSE
        left = np.linalg.eigvalsh(change + more * size)
        return (weights, float(np.sqrt(1 + more))) if (left[:, 0] > ROUNDING * left[:, 2]).all() else none

    def _changes(self, constants: Constants, weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 3 3"]:
        """Matrices of a quadratic form in m+ (the new m), m and H m, in units of S.

        A round shortens the squared norm by at least the value of this form.
        """
        (c, h, sigma), p, ahead = constants, self.friction, self.ahead
        return _forms(
            2 * (1 + c) - weights - constants.move_weight * self.most,
            -(1 + c) * (1 - p) - c,
            (1 + c) * ahead,
            2 * c * (1 - p) + weights,
            (c**2 - h - 2 * c * ahead - sigma) / 2,
            sigma / self.most,
            (2 + 3 * abs(c)) * (self.friction_error + self.ahead_error),
        )

    def _sizes(self, constants: Constants, weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 3 3"]:
        """Matrices of a quadratic form in m+ (the new m), m and H m, in units of S.

        The squared norm is at least the value of this form.
        """
        (c, h, _), p, most, wrong = constants, self.friction, self.most, self.friction_error + self.ahead_error
        shifted = np.stack([-np.ones(len(p)), 1 - p, c - self.ahead])  # H (y + c m)
        free = 2 * float((weights / most).min()) - h  # the factor of m'Hm - (Hm)' Lambda^-1 Hm in the norm
        return _forms(
            shifted[0] ** 2 / most,
            shifted[0] * shifted[1] / most,
            shifted[0] * shifted[2] / most,
            shifted[1] ** 2 / most + weights,
            shifted[1] * shifted[2] / most - (h + free) / 2,
            (shifted[2] ** 2 + free) / most,
            (2 * np.sqrt((shifted**2).sum(axis=0)) + wrong) * wrong / most,
        )

    def spread(self, constants: Constants, weights: Float[np.ndarray, " n"]) -> float:
        """The square root of the amount by which a drift (see `lost_in`) of 1 raises the square of the norm.

        This number holds for rounds that do not lengthen the norm, because the form in `lengthened` has no term for the
        drift.
        """
        c = constants.shift
        with np.errstate(divide="ignore"):
            if not constants.sigma:
                lost = self.friction_error + (2 + 3 * abs(c)) * self.ahead_error * self.most
                p, along = self.friction - lost, 2 - self.friction - lost - (self.ahead + 0.5) * self.most
                added = self.ahead / along + 1 / (2 * p)
                sound = bool((along > 0).all() and (p > 0).all())
            else:
                form = self._changes(constants, weights)
                least = np.linalg.eigvalsh(form)
                sound = bool((least[:, 0] > ROUNDING * least[:, 2]).all())
                enters = np.array([1 + c, -c, 0.0])
                added = np.linalg.solve(form, np.broadcast_to(enters, form.shape[:2])[..., None])[..., 0] @ enters
        return float(np.sqrt((added / self.scale).max() * (1 + self.scale_error)) * SAFE) if sound else np.inf


def _forms(*entries: np.ndarray | float) -> Float[np.ndarray, "n 3 3"]:
    """Symmetric matrices with the entries 00, 01, 02, 11, 12 and 22, minus a multiple of the unit matrix.

    The last argument is this multiple.
    """
    *upper, less = np.broadcast_arrays(*entries)
    matrices = np.stack([upper[k] for k in (0, 1, 2, 1, 3, 4, 2, 4, 5)], axis=1).reshape(-1, 3, 3)
    return matrices - less[:, None, None] * np.eye(3)


def constants_of(motions: Sequence[Motion]) -> Constants:
    """The constants of the norm for these rounds: in closed form if C is one number, and by a search otherwise."""
    numbers = {motion.even for motion in motions}
    if len(numbers) == 1 and (ahead := numbers.pop()) is not None:
        return Constants(ahead - 0.5, (1 + 2 * ahead) / 4)
    return _least(lambda constants: -min(motion.room(constants) for motion in motions), motions)


def _least(function: Callable[[Constants], float], motions: Sequence[Motion]) -> Constants:
    """The constants at which a search finds the smallest value of the function."""
    from scipy.optimize import minimize  # imported here because it loads slowly, and most commands do not search

    starts = [
        np.array([ahead - 0.5, share * (1 + 2 * ahead) / 4, sigma])
        for ahead in sorted({0.05, 0.2, 0.4, 0.7, 1.1, 1.6} | {float(of.ahead.max()) for of in motions})
        for share in (0.6, 1.0)
        for sigma in (0.1, 0.3, 0.8, 1.5, 3.0)
    ]

    def at(numbers: np.ndarray) -> float:
        interruption.check()
        return min(
            function(Constants(*numbers.tolist())), INFINITE
        )  # the search subtracts values, so none may be infinite

    nearest = minimize(at, min(starts, key=at), method="Nelder-Mead", options={"maxiter": 300, "fatol": 1e-4})
    return Constants(*nearest.x.tolist())


def _sampled(motion: Motion) -> Motion:
    """The motion at some of the eigenvalues, spread evenly over all eigenvalues in the order of their friction p."""
    order = np.argsort(motion.friction)
    chosen = order[np.unique(np.linspace(0, len(order) - 1, SAMPLED).round().astype(int))]
    fields = {name: getattr(motion, name)[chosen] for name in ("scale", "friction", "ahead", "most")}
    errors = {name: getattr(motion, name) for name in ("scale_error", "friction_error", "ahead_error")}
    return Motion(motion.feedback, **fields, **errors)


class RoundNorm(NamedTuple):
    """What a run needs to know about the norm of a round's errors."""

    constants: Constants
    by_drift: float  # growth of the norm by a drift (`lost_in`) of 1
    spread: float  # square root of the growth of the squared norm by such a drift; infinite if no bound is proved
    by_memory: float  # growth of the norm by a unit error of the memory
    reach: float  # an upper bound of |x|_H divided by the norm, for the error x of the coefficients
    stretched: float  # bound of the size of a state in the next round's norm, divided by its size in this norm
    growth: float  # factor by which the round itself lengthens the norm, 1 or more


@dataclass(frozen=True)
class _Known:
    """A round's norm, with the numbers that the norm of the next round needs."""

    motion: Motion
    constants: Constants
    inertia: Float[np.ndarray, " n"]  # K
    wrong: float  # relative error of K
    held: float  # omega: H is at most omega (K - h H)
    offset: float  # a, such that the error x of the coefficients enters the norm as |x - a m|_H
    growth: float  # factor by which a round lengthens the norm, 1 or more

    @classmethod
    def of(cls, motion: Motion, constants: Constants, growing: bool) -> "_Known":
        (weights, _), (c, h, _), growth = motion.weights(constants), constants, 1.0
        if not motion.room(constants) > ROUNDING:
            weights, growth = motion.lengthened(constants) if growing else (weights, np.inf)
        if growth == np.inf:
            raise ValueError(f"{REFUSED}: a round may lengthen every norm examined; try smaller local steps")
        wrong = 1.01 * (motion.scale_error + abs(c) * motion.friction_error / float(weights.min()))
        share = float((motion.most / weights).max()) * (1 + wrong)
        if h * share >= 1:
            raise ValueError(f"{REFUSED}: they are at their limit")
        held, offset = share / (1 - h * share), motion.feedback.beyond - c
        return cls(motion, constants, weights * motion.scale, wrong, held, offset, growth)

    @property
    def norm(self) -> RoundNorm:
        """The numbers of this norm, for the case that the next round has the same norm."""
        motion, feedback, h, scale = self.motion, self.motion.feedback, self.constants.subtracted, self.motion.scale
        most, moved = motion.most * scale, float(np.any(feedback.ahead)) - self.offset
        by_drift = float(((self.constants.move_weight * most + self.inertia) / scale**2).max())
        by_memory = feedback.unit**2 * float((self.inertia + max(moved**2 - h, 0) * most).max())
        by_drift, by_memory = (float(np.sqrt(squared * (1 + self.wrong))) for squared in (by_drift, by_memory))
        spread = motion.spread(self.constants, self.inertia / scale) if self.growth == 1 else np.inf
        return RoundNorm(
            self.constants,
            by_drift,
            spread,
            by_memory,
            float(np.sqrt(1 + self.offset**2 * self.held)),
            1.0,
            self.growth,
        )

    def stretched(self, later: "_Known") -> float:
        """An upper bound of the size of a state in the later norm, divided by its size in this norm."""
        ratio = later.motion.feedback.unit / self.motion.feedback.unit
        larger = float((later.inertia / self.inertia).max()) * (1 + later.wrong) / (1 - self.wrong)
        more = larger * self.constants.subtracted - later.constants.subtracted
        squared = ratio**2 * (larger + max(more, 0) * self.held)
        turned = abs(later.offset * ratio - self.offset) * np.sqrt(self.held)
        return float(np.linalg.norm(np.array([[1, turned], [0, np.sqrt(squared)]]), 2))


def round_norms(motions: Iterator[Motion], constants: Constants, growing: bool) -> list[RoundNorm]:
    """The norms of successive rounds.

    The first rounds have the given constants. If these constants prove nothing for a round, this round and all later
    rounds get new constants.

    Raises:
        ValueError: a round may lengthen every norm that was tried, or the steps are at their limit. With `growing`, a
            round may lengthen its norm if the factor of the growth is known.
    """
    norms: list[RoundNorm] = []
    before: _Known | None = None
    for motion in motions:
        interruption.check()
        if not motion.room(constants) > ROUNDING:
            constants = constants_of([some := _sampled(motion)])
            if growing and not motion.room(constants) > ROUNDING:
                # the constants whose norm grows least
                constants = _least(lambda norm: some.lengthened(norm)[1], [some])
        now = _Known.of(motion, constants, growing)
        if before is not None:
            norms[-1] = norms[-1]._replace(stretched=before.stretched(now))
        norms.append(now.norm)
        before = now
    return norms


@dataclass(frozen=True, eq=False)
class Moving(Carried):
    """Error bounds for a method that remembers one vector, with steps that change.

    The sums of the errors, which `Carried` takes from round to round, are the drift (`lost_in`) and the size of the
    error in the norm of the round.

    Source: docs/proofs/linear_methods.md#errors-of-methods-that-remember-where-steps-change.
    """

    steps_of: Callable[[int], Steps]
    norms: Sequence[RoundNorm]

    @classmethod
    def of(cls, steps_of: Callable[[int], Steps], clients: ClientModes, count: int = 0) -> "Moving":
        """The bounds of a run whose steps change in its first `count` rounds only, or never (`count` is 0).

        Raises:
            ValueError: steps for which no bound is proved.
        """

        def motions(rounds: Sequence[int]) -> Iterator[Motion]:
            return (Motion.of(steps_of(t), clients) for t in rounds)

        some = sorted(set(np.linspace(0, count, ROUNDS).round().astype(int).tolist()))
        constants = constants_of([_sampled(motion) for motion in motions(some)])
        return cls(steps_of, round_norms(motions(range(count + 1)), constants, count > 0))

    def bounds(self, sums: tuple[float, ...]) -> tuple[float, float, float]:
        drift, length, _, reach = sums
        margins, energy = self.steps_of(0).margins, reach * length  # the bounds of H are the same in every round
        norm, entry = (drift + np.sqrt(size) * energy for size in (margins.local.size, margins.entry))
        return norm, min(norm, entry), energy

    def added(self, old: RunState, move: np.ndarray, new: RunState) -> tuple[float, ...]:
        round, margins, _ = self.steps_of(old.round)
        norm, local = self._norm(old.round), margins.local
        assert round.feedback is not None
        forgotten, slip = round.feedback.slips(local, old.residual, old.memory[0], move, new.memory[0])
        _, lost, farther = lost_in(local, old, move, new)
        drift, length = old.sums[0], norm.growth * old.sums[1]
        length = further(length, norm.by_drift * drift, norm.spread * drift)
        length += np.sqrt(local.size) * (slip + lost) + norm.by_memory * forgotten
        return farther, SAFE * length, 0.0, 0.0

    def after(self, old: RunState, move: np.ndarray, new: RunState) -> tuple[float, ...]:
        (drift, length, *_), norm = super().after(old, move, new), self._norm(old.round)
        length += (norm.growth - 1) * old.sums[1]
        return drift, norm.stretched * length, 0.0, self._norm(new.round).reach

    def _norm(self, t: int) -> RoundNorm:
        return self.norms[min(t, len(self.norms) - 1)]
