"""Bounds of the growth of errors in rounds that remember one vector, such as the server's momentum.

The errors of all rounds are described by their z-transforms. An error of the residual acts on the run through T(w)^-1,
with T(w) = k H + s w (w + p) / (w + b) and w = z - 1. The number k and the functions s, p and b belong to the method.
s, p and b are functions of H_D, which holds the clients' own blocks H_cc of H and is 0 elsewhere. Such a function is
given by its values at the eigenvalues q of the blocks.

The j-th power of the round map is an integral of the resolvent over a circle |z| = R. So a bound of T(w)^-1 on this
circle bounds every power.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.limit.outer_spectrum import OuterSpectrum
from ntkfl.limit.round_modes import ClientModes

# T is turned by these angles, to prove that 0 is not in its numerical range
ANGLES = np.linspace(-np.pi, np.pi, 33)[1:]
TURNS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
FIRST_ARCS, MOST_ARCS = 8, 4000  # first and largest number of arcs into which the upper half of the circle is divided
CHANGE = 0.3  # largest change of the bound within an arc, relative to the bound


class LocalErrors(NamedTuple):
    """Bounds of the errors of the clients' computed local steps; each is the largest over the clients.

    The clients' decomposed blocks are H_cc = V diag(q) V'. Norms of matrices are spectral.
    """

    product: float  # norm of the error of a product of H and a vector, over the norm of the vector
    size: float  # an upper bound of |H|
    # error of the response u(H_D). For plain averaging, u(H_D) maps the residuals to the server's step; for other
    # methods, it maps the residuals to the clients' own displacements.
    response: float
    blocks: float  # distance of V diag(q) V' from H_cc, and of each q from an eigenvalue of H_cc
    rounded: float  # rounding error of a function of the blocks, relative to its largest value
    stored: float  # distance of the stored matrix from H, that is `product` without the rounding
    # rounding error of a product with the computed response, that is `response` without the errors of the blocks
    turned: float
    growth: float = 1.0  # how much a client's remaining steps can lengthen an error; 1 if every step contracts


class Wobble(NamedTuple):
    """Bounds of the errors of the computed s, p, b and W, where W is `Feedback.weights`.

    The error of s is relative, and the error of W is in the spectral norm.
    """

    scale: float
    zero: float
    pole: float
    weights: float


def relative(error: float, least: float) -> float:
    """A bound of the relative difference of two numbers; the bound holds relative to either number.

    The two numbers differ by at most `error`, and one of them is at least `least`.
    """
    return error / (least - error) if error < least else np.inf


@dataclass(frozen=True, eq=False)
class Feedback:
    """How the errors of single rounds enter a run, for a method that remembers one vector.

    All of the following are z-transforms over the rounds. A round makes the error d in the residual and the error f in
    the memory. As a consequence, the run's moves (the changes of the coefficients in a round) have the error k v, and
    the run's residuals have the error e:

        T(w) v = (1 - w s passed/(w + b)) d + w E f,   E = s (kept + ahead z)/(w + b),
        e = s (w + p)/(w + b) v - E f + s passed/(w + b) d.

    If `ahead` is not 0, the move contains `ahead` times the computed new memory, whose error is f; d is then the
    remaining error of the residual.

    Source: docs/proofs/linear_methods.md#errors-of-methods-that-remember.
    """

    spectrum: OuterSpectrum  # the functions s, p and b
    gram_factor: float  # k, the factor of H in T
    response: Float[np.ndarray, " n"]  # u(q), the response of a client's own steps
    wobble: Callable[[LocalErrors], Wobble]
    # a function of (errors, r, memory, move, new memory): the norms of the errors of the new memory and of the move
    slips: Callable[[LocalErrors, np.ndarray, np.ndarray, np.ndarray, np.ndarray], tuple[float, float]]
    # kept, ahead and passed in the formulas above: their values at q, or one number for all q
    kept: Float[np.ndarray, " n"] | float = 0.0
    ahead: Float[np.ndarray, " n"] | float = 0.0
    passed: Float[np.ndarray, " n"] | float = 0.0
    # For `lyapunov`: `unit` times the memory is the motion m, and the model is the position plus `beyond` times m.
    unit: float = 1.0
    beyond: float = 0.0

    @property
    def weights(self) -> Float[np.ndarray, " n"]:
        """W = k / (s (2 - p) / (2 - b)).

        If all eigenvalues of W^(1/2) H W^(1/2) are at most 2, the round map has no eigenvalue below -1.
        """
        return self.gram_factor / (self.spectrum.scale * self.spectrum.evened)


class Gains(NamedTuple):
    """Upper bounds of the accumulated errors after all rounds so far, if the norms of the rounds' errors sum to 1.

    The first two bound the residual's norm: `residual` for errors of the residual, `by_memory` for errors of the
    memory. The other two bound (e' H e)^(1/2) for the error e of the coefficients: `energy` for errors of the residual,
    `energy_by_memory` for errors of the memory.
    """

    residual: float
    by_memory: float
    energy: float
    energy_by_memory: float

    @classmethod
    def of(
        cls,
        feedback: Feedback,
        clients: ClientModes,
        errors: LocalErrors,
        rounds: int,
        largest: Callable[[np.ndarray], float] | None = None,
    ) -> "Gains":
        """The gains after this number of rounds.

        For a function W of H_D, `largest` takes the values of this function at the eigenvalues q of H_D, and bounds the
        largest eigenvalue of W^(1/2) H W^(1/2). Computing this bound takes long. So `largest` is called only where the
        sum of the clients' own largest eigenvalues is not small enough.

        Raises:
            ValueError: no bound is proved, because the resolvent may be infinite on the circle.

        Source: docs/proofs/linear_methods.md#errors-of-methods-that-remember.
        """
        spectrum, wobble = feedback.spectrum, feedback.wobble(errors)
        if not (spectrum.known and spectrum.zero.max() + wobble.zero < 2 and wobble.scale < 0.1):
            raise ValueError("no error bound is proved for these steps: clients' steps do not surely contract")
        s, p, b = spectrum.scale, spectrum.zero, spectrum.pole
        radius = 1 + 1 / max(rounds, 4)
        apart = radius - np.abs(1 - b) - wobble.pole  # a lower bound of |w + b| on the circle
        if apart.min() <= 0:
            raise ValueError("no error bound is proved for these steps: clients' blocks are not known closely enough")
        loose = 1 / (1 - wobble.scale)
        steep = (1 + b * np.abs(b - p) / apart**2) * loose
        moved = wobble.zero / float(apart.min()) + (2 * radius + float(p.max())) * wobble.pole / float(apart.min()) ** 2
        root, wrong = np.sqrt(s * loose), wobble.scale / s
        through = np.abs(feedback.kept) + np.abs(feedback.ahead) * radius + wrong
        passed = np.abs(feedback.passed) + (wrong if np.any(feedback.passed) else 0.0)
        slant = np.sqrt(feedback.gram_factor)

        def own(norm: np.ndarray) -> np.ndarray:
            return feedback.gram_factor * (clients.values + errors.blocks) / (s * norm) * loose

        def over_the_circle(norm: np.ndarray, top: float) -> np.ndarray | None:
            """The integrals over the circle, where x is s times `norm`; None if A + delta may be singular.

            A is k x^-1/2 H x^-1/2, whose norm is at most `top`, and delta is the rest of x^-1/2 T x^-1/2.
            """
            sloping, shifted = float((steep / norm).max()), moved / float(norm.min())
            most, across = len(clients.members) * own(norm), root / np.sqrt(norm)  # `across` is s x^-1/2
            entering = float(np.sqrt(loose / (s * norm)).max())

            def least(angle: float) -> tuple[float, float]:
                """Returns a lower bound of 1 / |(A + delta)^-1|, and an upper bound of |delta|."""
                w = radius * np.exp(1j * angle) - 1
                delta = w * (w + p) / (w + b) / norm
                turned = TURNS @ np.stack([delta.real, delta.imag])
                lows = turned.min(axis=1)
                back = TURNS[:, 0] < 0  # angles with a negative cosine; for these a larger A lowers the bound
                cosines = TURNS[back, 0]
                by_client = (turned[back] + cosines[:, None] * most).min(axis=1)
                lows[back] = np.maximum(by_client, lows[back] + cosines * top)
                return float(lows.max()) - abs(w) * shifted, float(np.abs(delta).max()) + abs(w) * shifted

            upper = [np.pi * i / FIRST_ARCS for i in range(FIRST_ARCS + 1)]  # the upper half of the circle
            totals, arcs, done = np.zeros(4), list(pairwise(upper)), 0
            while arcs:
                interruption.check()
                start, end = arcs.pop()
                bound, size = least((start + end) / 2)
                reach = radius * (end - start) / 2
                if not (sloping + shifted) * reach <= CHANGE * bound:
                    if done + len(arcs) > MOST_ARCS or end - start < 1e-9 / max(rounds, 4):
                        return None
                    arcs += [(start, (start + end) / 2), ((start + end) / 2, end)]
                    continue
                done += 1
                low, size = bound - (sloping + shifted) * reach, size + (sloping + shifted) * reach
                w = radius * np.exp(0.5j * (start + end)) - 1
                beside = 1 / np.maximum(np.abs(w + b) - reach - wobble.pole, apart)  # a bound of 1 / |w + b| on the arc
                near, far = max(abs(w) - reach, radius - 1), abs(w) + reach
                out = float((across * beside * (np.abs(w + p) + reach + wobble.zero)).max())
                at_once, delayed = float((across * beside * through).max()), float((across * beside * passed).max())
                past, straight = (float((root**2 * beside * part).max()) for part in (through, passed))
                entered = entering + far * delayed
                energy = np.sqrt(low + size) / low
                # a bound of k H v, which is needed because e = (d - k H v) / w
                pulled = float((root * np.sqrt(norm)).max()) * np.sqrt(top) * energy
                terms = [
                    min(out * entered / low + straight, (1 + pulled * entered) / near),
                    min(out * far * at_once / low + past, pulled * far * at_once / near),
                ]
                energy *= slant
                totals += (end - start) / np.pi * np.array([*terms, energy * entered / near, energy * at_once])
            return totals

        def by_sums(norm: np.ndarray) -> float:
            return clients.sum_of_largest(own(norm))

        ones, even = np.ones(len(s)), spectrum.evened  # with `even` as `norm`, all entries of delta are equal at z = -1
        totals = over_the_circle(ones, by_sums(ones))
        if totals is None:
            totals = over_the_circle(even, by_sums(even))
        if totals is None and largest is not None:
            # x is made of the exact s and of the computed (2 - p) / (2 - b). The computed quotient is at least the
            # exact quotient divided by `uneven`.
            uneven = (1 + wobble.zero / float((2 - p).min())) / (1 - wobble.pole)
            top = uneven * (largest(feedback.weights) + errors.size * wobble.weights)
            totals = over_the_circle(even, min(top, by_sums(even)))
        if totals is None:
            raise ValueError(
                "no error bound is proved for these steps: an eigenvalue of the round's map may be beyond 1"
            )
        # an error of the initial residual counts like an error in a round before the first round
        return cls(*(float(total) for total in radius ** (rounds + 1) * 1.01 * totals))
