"""Neurons that training holds at kinks: a criterion, and the kernel by which the residual falls while they are held.

At the kink of x_i neuron r, z = w_r.x_i, feels a_r (B + 1{z >= 0} G_ii r_i) / sqrt(m), G = x x^T and B = sum_(j != i)
G_ij s_rj r_j. Both sides push it to the kink iff psi = -B / (G_ii r_i) is in (0, 1) and a_r r_i < 0; then it slides
along the kink (Filippov), as if its activation there were psi. It moves by the projection of its other forces on the
hyperplane of the kink, and adds nothing to f_i: the residual falls by the kernel with these pairs projected out. Where
a_r r_i > 0 the kink repels.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from ntkfl.estimate import Estimate
from ntkfl.finite_width.boundary_layer import REPLICATES, kink_layers, over_replicates
from ntkfl.problem import Problem, Setup, Weights


def pairs_near_kinks(
    problem: Problem, setup: Setup, rounds: ArrayLike, radii: ArrayLike, *, draws: int = 512, starts: int = 32, seed=0
) -> Estimate:
    """Coefficients of m^(1/2) in the number of pairs (r, i) with |w_r(t).x_i| < radius/sqrt(m), at each of the rounds.

    The coefficients are those of the infinite-width run that starts from the residual problem.y; errors at 99%. Before
    training (t = 0) a coefficient is the sum over i of 2 radius / (sqrt(2 pi) sigma |x_i|), by the Gaussian density. A
    neuron that a sample pushes across its own kink, and that all other samples push back, stays at the kink while the
    steps fall: so the number of pairs within a fixed multiple of |r(t)|/sqrt(m) need not fall with |r(t)|.

    `problem.y` is the residual y - y(0) at the start, and the width of the setup is not used.

    Raises:
        ValueError: rounds outside 0..T, radii of another shape or not positive; as `kink_layers`. Source: fl-ntk/X.13.
    """
    rounds, radii = np.asarray(rounds, int), np.asarray(radii, float)
    if rounds.ndim != 1 or rounds.shape != radii.shape or not (radii > 0).all():
        raise ValueError(f"rounds and radii have shapes {rounds.shape} and {radii.shape}; both must be (q,), radii > 0")
    if rounds.size and not 0 <= rounds.min() <= rounds.max() <= setup.rounds:
        wrong = rounds.min() if rounds.min() < 0 else rounds.max()
        raise ValueError(f"rounds contains {wrong}; the run has rounds 0..{setup.rounds}")
    fractions = np.zeros((REPLICATES, len(rounds)))
    margin = float(radii.max(initial=0.0))
    for layer in kink_layers(problem, setup, draws=draws, starts=starts, margin=margin, seed=seed):
        for i in np.flatnonzero(rounds == 0):
            fractions[:, i] += layer.mean(np.abs(layer.start) < radii[i])
        for step in layer.walk():
            if step.local_step == setup.local_steps:
                for i in np.flatnonzero(rounds == step.round + 1):
                    fractions[:, i] += layer.mean(np.abs(step.after) < radii[i])
    return over_replicates(fractions)


@dataclass(frozen=True, eq=False)
class Sliding:
    """Pairs (neuron, sample) at their kinks, (q, 2), and the patterns of all other pairs, under a residual.

    The patterns, (m, n), are 1{w_r.x_i >= 0}, and 0 at the pairs; `signs` is a, (m,).
    """

    pairs: Int[np.ndarray, "q 2"]
    patterns: Bool[np.ndarray, "m n"]
    signs: Float[np.ndarray, " m"]
    x: Float[np.ndarray, "n d"]

    def activations(self, residual: Float[np.ndarray, " n"]) -> Float[np.ndarray, " q"]:
        """psi of each pair: the activation that keeps all pairs of the neuron at their kinks, (q,).

        Raises:
            ValueError: a residual of 0 at a pair, or dependent inputs at a neuron: then psi is not determined.
        """
        samples = self.pairs[:, 1]
        if not residual[samples].all():
            raise ValueError(f"the residual of sample {samples[residual[samples] == 0][0]} is 0: no force is its own")
        gram, psi = self.x @ self.x.T, np.empty(len(self.pairs))
        for neuron in np.unique(self.pairs[:, 0]):
            here = self.pairs[:, 0] == neuron
            at = samples[here]
            if np.linalg.matrix_rank(self.x[at]) < len(at):
                raise ValueError(
                    f"samples {at.tolist()}, all held at neuron {neuron}, are linearly dependent; their activations "
                    "are determined only where they are independent: leave one out"
                )
            others = gram[at] @ (self.patterns[neuron] * residual)
            psi[here] = np.linalg.solve(gram[np.ix_(at, at)] * residual[at], -others)
        return psi

    def held(self, residual: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " q"]:
        """Whether both sides push a pair to its kink: a_r r_i < 0 and psi in (0, 1), (q,).

        This is for the given pairs together: if one of several pairs at a neuron is not held, call it again without
        that pair.
        """
        psi = self.activations(residual)
        return (self.signs[self.pairs[:, 0]] * residual[self.pairs[:, 1]] < 0) & (psi > 0) & (psi < 1)

    def features(self) -> Float[np.ndarray, "n m d"]:
        """Gradients of the outputs along the kinks: a_r s_ri P_r x_i / sqrt(m), P_r off the kinks that r is held at."""
        inputs = np.broadcast_to(self.x, (len(self.signs), *self.x.shape)).copy()
        for neuron in np.unique(self.pairs[:, 0]):
            at = self.x[self.pairs[self.pairs[:, 0] == neuron, 1]]
            inputs[neuron] -= self.x @ np.linalg.pinv(at) @ at
        scale = self.signs / np.sqrt(len(self.signs))
        return (inputs * (self.patterns * scale[:, None])[..., None]).transpose(1, 0, 2)

    def kernel(self) -> Float[np.ndarray, "n n"]:
        """The kernel with the held pairs projected out, (n, n)."""
        flat = self.features().reshape(len(self.x), -1)
        return flat @ flat.T


def sliding(problem: Problem, weights: Weights, pairs: Int[np.ndarray, "q 2"]) -> Sliding:
    """A network's `Sliding` with these pairs at their kinks; every other pair stays on its side of the kink.

    Raises:
        ValueError: pairs that are not (neuron, sample), or a pair twice.
    """
    pairs = np.asarray(pairs, int).reshape(-1, 2)
    shape = (len(weights.signs), problem.n)
    bad = (pairs < 0) | (pairs >= shape)
    if bad.any():
        raise ValueError(f"pair {pairs[bad.any(axis=1)][0].tolist()} is none of {shape[0]} neurons, {shape[1]} samples")
    if len(np.unique(pairs, axis=0)) < len(pairs):
        raise ValueError("a pair (neuron, sample) is given twice")
    patterns = weights.hidden @ problem.x.T >= 0
    patterns[pairs[:, 0], pairs[:, 1]] = False
    return Sliding(pairs, patterns, weights.signs, problem.x)
