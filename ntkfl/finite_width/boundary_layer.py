"""The order m^(-1/2) by which the outputs of a finite network differ from those of the infinite-width limit.

The difference has two parts of this order. The initial Gram matrix H(0) is not H_inf; this part is random with mean
zero. And neurons at the kinks change their activation pattern; this part is deterministic to this order. Both parts
assume the same initial residual at every width. A network with another y(0) adds a third part, M^t (y_m(0) - y_inf(0)).

The second part comes from a boundary layer, since only neurons within O(m^(-1/2)) of a sample's kink w.x_i = 0 change
their pattern.

Training moves a neuron by O(m^(-1/2)), so to leading order a neuron changes its pattern on at most one sample. For that
sample i the scaled pre-activation z = sqrt(m) w.x_i follows a scalar recursion. In it the residuals are those of the
infinite-width limit, the patterns on the other samples are the initial ones, and only 1{z >= 0} changes. The initial z
is uniform near 0, with the density of sqrt(m) w.x_i. The patterns on the other samples are those of a Gaussian w
orthogonal to x_i. Averages over z and the patterns are computed by Monte Carlo. The initial z are stratified over
exactly those values from which z comes near the kink.

Training holds some neurons at kinks. At the kink of x_i the force on z = w_r.x_i is a_r (B + 1{z >= 0} G_ii r_i) /
sqrt(m), with G = x x^T and B = sum_(j != i) G_ij s_rj r_j, where s_rj is 1 if neuron r is active on x_j, otherwise 0.
The forces on both sides of the kink push z to the kink iff psi = -B / (G_ii r_i) is in (0, 1) and a_r r_i < 0. Then
neuron r slides along the kink (Filippov), as if the indicator of its activity there were psi. The neuron moves by the
projection of its other forces on the hyperplane of the kink, and adds nothing to f_i. So the residual decreases in the
same way as it would with the kernel from which these pairs are projected out. Where a_r r_i > 0, the forces push z away
from the kink.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from ntkfl.estimate import Estimate, Rigour
from ntkfl.gram import infinite
from ntkfl.limit.infinite_width import algorithm1_limit
from ntkfl.problem import Problem, Setup, Weights


def pairs_near_kinks(
    problem: Problem, setup: Setup, rounds: ArrayLike, radii: ArrayLike, *, draws: int = 512, starts: int = 32, seed=0
) -> Estimate:
    """Coefficients of m^(1/2) in the number of pairs (r, i) with |w_r(t).x_i| < radius/sqrt(m), for each of the given
    rounds t.

    The coefficients are those of the infinite-width run that starts from the residual problem.y. The errors are
    half-widths of 99% confidence intervals. Before training (t = 0) a coefficient is the sum over i of 2 radius /
    (sqrt(2 pi) sigma |x_i|), by the Gaussian density. A neuron that one sample pushes across this sample's kink, and
    that all other samples push back, stays at the kink while the steps become smaller. So the number of pairs within a
    fixed multiple of |r(t)|/sqrt(m) need not decrease with |r(t)|.

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
    """Pairs (neuron, sample) at their kinks, (q, 2), with the patterns of all other pairs and the residual of the
    samples.

    The patterns, (m, n), are 1{w_r.x_i >= 0}, but 0 at the pairs; `signs` has the a_r, (m,).
    """

    pairs: Int[np.ndarray, "q 2"]
    patterns: Bool[np.ndarray, "m n"]
    signs: Float[np.ndarray, " m"]
    x: Float[np.ndarray, "n d"]

    def activations(self, residual: Float[np.ndarray, " n"]) -> Float[np.ndarray, " q"]:
        """The number psi of each pair, (q,): the value in place of 1{z >= 0} that keeps all pairs of the neuron at
        their kinks.

        Raises:
            ValueError: a residual of 0 at a pair, or linearly dependent inputs at a neuron, since psi is then not
                determined.
        """
        samples = self.pairs[:, 1]
        if not residual[samples].all():
            raise ValueError(f"the residual of sample {samples[residual[samples] == 0][0]} is 0: it exerts no force")
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
        """For each pair, (q,), whether the forces on both sides push it to its kink, that is, whether a_r r_i < 0 and
        psi is in (0, 1).

        The answer is for the given pairs together: if one of several pairs at a neuron is not held, call `held` again
        without that pair.
        """
        psi = self.activations(residual)
        return (self.signs[self.pairs[:, 0]] * residual[self.pairs[:, 1]] < 0) & (psi > 0) & (psi < 1)

    def features(self) -> Float[np.ndarray, "n m d"]:
        """The gradients of the outputs along the kinks, a_r s_ri P_r x_i / sqrt(m).

        The projection P_r removes the directions of the samples at whose kinks neuron r is held.
        """
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
    """The `Sliding` of a network with these pairs at their kinks; every other pair stays on its side of its kink.

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


REPLICATES = 8  # number of independent replicates; their spread gives the error
# the largest number of distinct patterns of a replicate; if there are more, only the first 48 draws are used
MOST_PATTERNS = 48
LEVEL = 0.99


class Step(NamedTuple):
    """One step of the scaled pre-activations z, (rows, 2, 2, starts): a local step, or the server's step from round t
    to t+1.

    `frozen` is the change of z if the pattern stays the initial one. `local_step` is k, or K for the server's step.
    """

    round: int
    local_step: int
    before: np.ndarray
    after: np.ndarray
    frozen: np.ndarray


@dataclass(frozen=True, eq=False)
class KinkLayer:
    """Neurons near the kink of one sample i, in arrays (rows, 2, 2, starts).

    The axes are the row (a replicate and a pattern), the sign a = +1 or -1, the side of the initial value (z < 0 or
    z >= 0), and the initial value itself (called "start").
    """

    sample: int  # i
    patterns: Float[np.ndarray, "rows n"]  # 1{w.x_j >= 0} of the rows, (rows, n), with 1 for j = i
    replicate: np.ndarray  # the replicate of each row, (rows,)
    start: np.ndarray  # z(0), (rows, 2, 2, starts)
    # weight of each start, (rows, 2, 2, 1), such that the weighted sum over all starts of a replicate is the
    # coefficient of m^(-1/2) in the mean over neurons
    measure: np.ndarray
    # Sums of eta_l G_ij s_j r_j^{(k)}(t) over samples j other than i. In `pull`, (T, K, rows), j runs over the samples
    # of i's client. In `server_pull`, (T, rows), j runs over the samples of all clients, and the sum is over k too.
    pull: Float[np.ndarray, "T K rows"]
    server_pull: Float[np.ndarray, "T rows"]
    own: Float[np.ndarray, "T K"]  # eta_l G_ii r_i^{(k)}(t), (T, K)
    share: float  # eta_g / N

    def walk(self) -> Iterator[Step]:
        """Every local step k = 0..K-1 of a round, then the server's step, for all rounds in order."""
        sign = np.array([1.0, -1.0])[:, None, None]
        side = np.array([0.0, 1.0])[:, None]
        z = self.start
        for t, own in enumerate(self.own):
            local, felt = z, np.zeros_like(z)
            for k, alone in enumerate(own):
                active = local >= 0
                pull = self.pull[t, k][:, None, None, None]
                after = local + sign * (pull + alone * active)
                yield Step(t, k, local, after, sign * (pull + alone * side))
                felt += alone * active
                local = after
            pull = self.server_pull[t][:, None, None, None]
            after = z + self.share * sign * (pull + felt)
            yield Step(t, len(own), z, after, self.share * sign * (pull + own.sum() * side))
            z = after

    def mean(self, values: np.ndarray, patterns: bool = False) -> np.ndarray:
        """The mean over neurons of a value that is given for each start, times sqrt(m), for each replicate, (R,).

        With `patterns`, the mean of the value times 1{w.x_j >= 0}, (R, n); for j = i this factor is 1.
        """
        rows = (values * self.measure).sum(axis=(1, 2, 3))
        rows = rows[:, None] * self.patterns if patterns else rows
        total = np.zeros((REPLICATES, *rows.shape[1:]))
        np.add.at(total, self.replicate, rows)
        return total


def kink_layers(
    problem: Problem,
    setup: Setup,
    gram: np.ndarray | None = None,
    *,
    draws: int = 2048,
    starts: int = 32,
    margin: float = 0.0,
    seed: int = 0,
) -> Iterator[KinkLayer]:
    """The boundary layers of all samples, one after the other, along the infinite-width run with initial residual
    problem.y.

    `problem.y` is the residual y - y(0) at the start, and the width of the setup is not used. `gram` is the matrix that
    the residuals follow, by default H_inf; where the readout is trained too, this matrix is larger. `draws` is the
    number of random weights orthogonal to x_i in each of the 8 replicates. Of a replicate with more than 48 different
    patterns only the first 48 draws are used. Starts are values of z from which z can cross the kink, and values that
    are up to `margin`, in units of z, farther from the kink.

    Raises:
        ValueError: labels with several outputs, draws or starts below 1, a negative margin.
    """
    if problem.y.ndim != 1:
        raise ValueError(f"y has shape {problem.y.shape}; the network has one output, so y must be ({problem.n},)")
    if min(draws, starts) < 1 or not margin >= 0:
        raise ValueError(
            f"draws, starts and margin are {draws}, {starts} and {margin}; they must be at least 1, 1 and 0"
        )
    local_outputs = algorithm1_limit(problem, setup, gram).trajectory().local_outputs
    residual = problem.y - local_outputs[:, : setup.local_steps]
    return (
        _layer(problem, setup, residual, i, draws, starts, margin, np.random.default_rng([seed, i]))
        for i in range(problem.n)
    )


def _layer(problem, setup, residual, i, draws, starts, margin, rng) -> KinkLayer:
    x, length = problem.x, float(np.linalg.norm(problem.x[i]))
    patterns, weight, replicate = _patterns(x, i, draws, rng)
    others = x @ x[i]
    own = setup.eta_local * others[i] * residual[:, :, i]
    others[i] = 0.0
    pull = setup.eta_local * residual * others  # (T, K, n)
    mates = pull * (problem.owner == problem.owner[i])
    pull_by_row, server_pull = mates @ patterns.T, pull.sum(axis=1) @ patterns.T
    share = setup.eta_global / problem.n_clients
    reach = _reach(pull_by_row, server_pull, own, share) + margin  # (rows, 2, 2)
    strata = (np.arange(starts) + rng.random((*reach.shape, starts))) / starts
    start = reach[..., None] * np.where(np.array([False, True])[:, None], strata, -strata)
    density = 1 / (np.sqrt(2 * np.pi) * setup.sigma * length)
    measure = (density / 2 / starts) * weight[:, None, None, None] * reach[..., None]
    return KinkLayer(i, patterns, replicate, start, measure, pull_by_row, server_pull, own, share)


def _patterns(x, i, draws, rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct patterns of each replicate, the share of the replicate's draws with each pattern, and each pattern's
    replicate."""
    rows, weights, replicates = [], [], []
    for replicate in range(REPLICATES):
        w = rng.standard_normal((draws, x.shape[1]))
        w -= np.outer(w @ x[i], x[i]) / (x[i] @ x[i])
        active = w @ x.T >= 0
        active[:, i] = True
        distinct, counts = _distinct(active)
        if len(distinct) > MOST_PATTERNS:
            distinct, counts = active[:MOST_PATTERNS], np.full(MOST_PATTERNS, draws / min(draws, MOST_PATTERNS))
        rows.append(distinct)
        weights.append(counts / draws)
        replicates.append(np.full(len(counts), replicate))
    return np.concatenate(rows).astype(float), np.concatenate(weights), np.concatenate(replicates)


def _distinct(patterns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of booleans in lexical order, and how often each occurs.

    Rows of at most 64 booleans are packed into one number, which numpy sorts twenty times as fast.
    """
    if patterns.shape[1] > 64:
        return np.unique(patterns, axis=0, return_counts=True)
    bits = np.zeros((len(patterns), 8), np.uint8)
    packed = np.packbits(patterns, axis=1)
    bits[:, : packed.shape[1]] = packed
    _, first, counts = np.unique(bits.view(">u8")[:, 0], return_index=True, return_counts=True)
    return patterns[first], counts


def _reach(pull, server_pull, own, share) -> np.ndarray:
    """The largest distance from the kink from which steps with the initial pattern can lead across the kink, (rows, 2,
    2).
    """
    reach = np.empty((pull.shape[-1], 2, 2))
    for side in (0, 1):
        local = np.cumsum(pull + side * own[:, :, None], axis=1)  # (T, K, rows), for a = +1
        server = np.cumsum(share * (server_pull + side * own.sum(axis=1)[:, None]), axis=0)
        before = np.concatenate([np.zeros_like(server[:1]), server[:-1]])
        path = np.concatenate([server, (before[:, None] + local).reshape(-1, server.shape[1])])
        for sign, a in enumerate((1, -1)):
            toward = path * (-a if side else a)
            reach[:, sign, side] = np.maximum(toward.max(axis=0), 0.0)
    return reach


class PatternChange(NamedTuple):
    """Coefficients of m^(-1/2) after t = 0..T rounds, in the fraction of pairs whose pattern has flipped, and in E[H(t)
    - H(0)].
    """

    flips: Estimate  # (T+1,)
    drift: Estimate  # (T+1, n, n)


def pattern_change(problem: Problem, setup: Setup, **sampling) -> PatternChange:
    """The coefficients F(t) of the flipped pairs and B(t) of the kernel's drift; sampled as in `kink_layers`, with
    errors at 99%.

    `problem.y` is the residual y - y(0) at the start, and the width of the setup is not used.
    """
    n, rounds = problem.n, setup.rounds
    flips, change = np.zeros((REPLICATES, rounds + 1)), np.zeros((REPLICATES, rounds + 1, n, n))
    for layer in kink_layers(problem, setup, **sampling):
        was = layer.start >= 0
        for step in layer.walk():
            if step.local_step == setup.local_steps:
                changed = (step.after >= 0) ^ was
                flips[:, step.round + 1] += layer.mean(changed) / n
                change[:, step.round + 1, layer.sample] = layer.mean(np.where(was, -1.0, 1.0) * changed, patterns=True)
    both = change + change.swapaxes(2, 3)
    diagonal = np.arange(n)
    both[:, :, diagonal, diagonal] /= 2
    return PatternChange(over_replicates(flips), over_replicates(both * (problem.x @ problem.x.T)))


def over_replicates(values: np.ndarray) -> Estimate:
    """The mean over the first axis, with the half-width of its t-interval at the 99% level."""
    spread = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    half = stdtrit(len(values) - 1, (1 + LEVEL) / 2) * spread
    return Estimate(
        values.mean(axis=0), half, f"Monte Carlo over the boundary layer, {LEVEL:.0%} interval", Rigour.SAMPLED
    )


def response_derivative(
    block: Float[np.ndarray, "c c"], change: Float[np.ndarray, "c c"], eta_local: float, steps: int
) -> Float[np.ndarray, "c c"]:
    """The Frechet derivative of f_K(A) = eta_l sum_{k<K} (I - eta_l A)^k at a symmetric block, in a direction.

    In the eigenbasis the derivative multiplies by the divided differences f_K[q_i, q_j]. Each is computed as -eta_l^2
    sum_{k<K} of the complete homogeneous polynomial of degree k-1 in 1 - eta_l q_i and 1 - eta_l q_j, so that equal
    eigenvalues need no special case and close eigenvalues cost no accuracy.
    """
    values, vectors = np.linalg.eigh(block)
    factor = 1 - eta_local * values
    homogeneous, total = np.zeros_like(block, float), np.zeros_like(block, float)
    for k in range(1, steps):
        homogeneous = factor[:, None] * homogeneous + factor ** (k - 1)
        total = total + homogeneous
    inner = vectors.T @ change @ vectors
    return vectors @ (-(eta_local**2) * total * inner) @ vectors.T


def map_derivative(
    problem: Problem, setup: Setup, gram: Float[np.ndarray, "n n"], change: Float[np.ndarray, "n n"]
) -> Float[np.ndarray, "n n"]:
    """dM = -(eta_g/N)(dH P + H dP), the change of the round map M = I - (eta_g/N) H P if the Gram matrix changes by dH.

    Source: fl-ntk/X.10.
    """
    response, moved = np.zeros_like(gram), np.zeros_like(gram)
    for owned in problem.members:
        block = np.ix_(owned, owned)
        values, vectors = np.linalg.eigh(gram[block])
        powers = (1 - setup.eta_local * values) ** np.arange(setup.local_steps)[:, None]
        response[block] = (vectors * (setup.eta_local * powers.sum(axis=0))) @ vectors.T
        moved[block] = response_derivative(gram[block], change[block], setup.eta_local, setup.local_steps)
    return -(setup.eta_global / problem.n_clients) * (change @ response + gram @ moved)


def gram_correction(
    problem: Problem, setup: Setup, change: Float[np.ndarray, "n n"], gram: Float[np.ndarray, "n n"] | None = None
) -> Float[np.ndarray, "T n"]:
    """The first-order change of the outputs y(t), t = 0..T, if the Gram matrix (default: H_inf) changes by dH.

    It is -sum_{s<t} M^{t-1-s} dM M^s r with r = y - y(0). The residual changes by the sum, and the outputs by minus the
    sum.
    Source: fl-ntk/X.10.

    `problem.y` is the residual r = y - y(0) at the start.
    """
    gram = infinite(problem.x) if gram is None else gram
    moved = map_derivative(problem, setup, gram, change)
    round_map = algorithm1_limit(problem, setup, gram).round_map
    residual, first = problem.y, np.zeros(problem.n)
    path = [first]
    for _ in range(setup.rounds):
        first = round_map @ first + moved @ residual
        residual = round_map @ residual
        path.append(first)
    return -np.array(path)


def drift_correction(problem: Problem, setup: Setup, **sampling) -> Estimate:
    """The coefficient of m^(-1/2) in y_m(t) that the neurons at the kinks cause, (T+1, n); errors at 99%.

    The effect of the neurons on each local and server step is propagated to later rounds by the infinite-width
    dynamics. The result does not depend on the draw of the network. Sampling is that of `kink_layers`.

    `problem.y` is the residual y - y(0) at the start, and the width of the setup is not used.

    Raises: as `kink_layers`. Source: fl-ntk/X.9, X.10.
    """
    h = infinite(problem.x)
    local, server = _forcing(problem, setup, **sampling)
    same = problem.owner[:, None] == problem.owner
    own, share = setup.eta_local * h * same, setup.eta_global * setup.eta_local / problem.n_clients
    error = np.zeros((REPLICATES, problem.n))  # the change of y(t), in units of m^(-1/2)
    path = [error]
    for t in range(setup.rounds):
        inside, felt = error, np.zeros_like(error)
        for k in range(setup.local_steps):
            felt = felt + inside
            inside = inside - inside @ own + local[:, t, k]
        error = error - share * felt @ h + server[:, t]
        path.append(error)
    return over_replicates(np.stack(path, axis=1))


def _forcing(problem: Problem, setup: Setup, **sampling) -> tuple[np.ndarray, np.ndarray]:
    """The change of the outputs that the boundary layers cause in each local step, (R, T, K, n), and in each server
    step, (R, T, n).

    A neuron near the kink of sample i changes output i by the change of relu(z) minus the change that there would be
    with the neuron's initial pattern. It changes the other outputs because its gradient gains or loses the part of
    sample i; on the other samples it keeps its initial pattern.
    """
    inner = problem.x @ problem.x.T
    residual = problem.y - algorithm1_limit(problem, setup).trajectory().local_outputs[:, : setup.local_steps]
    sign = np.array([1.0, -1.0])[:, None, None]
    local = np.zeros((REPLICATES, *residual.shape))
    server = np.zeros((REPLICATES, setup.rounds, problem.n))
    share = setup.eta_global * setup.eta_local / problem.n_clients
    for layer in kink_layers(problem, setup, **sampling):
        i = layer.sample
        was = layer.start >= 0
        mates = (problem.owner == problem.owner[i]) * inner[i]
        mates[i] = 0.0
        rest = inner[i].copy()
        rest[i] = 0.0
        for t, k, before, after, frozen in layer.walk():
            beyond = sign * (np.maximum(after, 0.0) - np.maximum(before, 0.0) - frozen * was)
            if k == setup.local_steps:
                server[:, t, i] += layer.mean(beyond)
                continue
            local[:, t, k, i] += layer.mean(beyond)
            pulled = residual[t, k, i] * layer.mean((before >= 0) * 1.0 - was, patterns=True)
            local[:, t, k] += setup.eta_local * mates * pulled
            server[:, t] += share * rest * pulled
    return local, server
