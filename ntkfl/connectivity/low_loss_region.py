"""The size d_eps of a low-loss region: the S-th root of its volume in a bounded cube, for S parameters.

For many parameters the volume is estimated by multilevel splitting. Points, here called particles, are drawn in the
cube. On each level the particles with the smallest losses are kept and copied. The copies are moved at random, but only
to points whose loss is below the bound of the level.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv, stdtrit

from ntkfl.estimate import Estimate, Rigour
from ntkfl.problem import finite_array

Losses = Callable[[np.ndarray], np.ndarray]  # points (N, S) -> their losses, (N,)

QUANTILE = 0.2  # the share of the particles that are kept on each level
MOST_LEVELS = 400
# moves of a particle on each level, for each parameter; with 1.5 in place of 5 the volume was 70% too large (S = 20)
MOVES_A_PARAMETER = 5
LEAST_MOVES = 30


def region_size(
    losses: Losses,
    below: float,
    centre: Float[np.ndarray, " S"],
    side: float,
    rng: np.random.Generator,
    points: int = 20_000,
    level: float = 0.95,
) -> Estimate:
    """d_eps = |{w in the cube: L(w) < eps}|^(1/S), a number, from uniform points.

    The method is for few parameters, about S <= 8.

    Args:
        losses: L at points (N, S).
        below: eps.
        centre: the centre of the cube, shape (S,).
        side: the side of the cube.
        rng: the generator that draws the points.
        points: number of uniform points; default 20000.
        level: confidence level of the exact binomial interval; default 0.95.

    Raises:
        ValueError: the cube is unbounded (then the region is infinite, and the message says why); there are no points;
            a loss is NaN.
    Source: FedGuCci, Lemma 3.3; fedgucci/F3.
    """
    centre = _checked_cube(centre, side)
    if np.isnan(below):
        raise ValueError("eps is NaN; it must be a number")
    if points < 1:
        raise ValueError(f"{points} points; at least one is needed")
    drawn = centre + side * (rng.random((points, len(centre))) - 0.5)
    share = binomial_share(int((_heights(losses, drawn) < below).sum()), points, level)
    low, high = (side * max(float(end), 0.0) ** (1 / len(centre)) for end in (share.lo, share.hi))
    return Estimate.between(low, high, share.method, share.rigour)


def binomial_share(hits: int, points: int, level: float = 0.95) -> Estimate:
    """A probability, a number, estimated from independent trials by the exact binomial interval of Clopper and Pearson.

    Args:
        hits: number of successful trials.
        points: number of trials.
        level: confidence level of the two-sided interval; default 0.95.
    """
    tail = (1 - level) / 2
    low = float(betaincinv(hits, points - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, points - hits, 1 - tail)) if hits < points else 1.0
    return Estimate.between(low, high, f"Clopper-Pearson {100 * level:g}%, {hits} of {points} points", Rigour.SAMPLED)


def split_region_size(
    losses: Losses,
    below: float,
    centre: Float[np.ndarray, " S"],
    side: float,
    rng: np.random.Generator,
    particles: int = 500,
    runs: int = 5,
    level: float = 0.95,
) -> Estimate:
    """d_eps for many parameters, a number, by multilevel splitting.

    The volume is a product of shares of about QUANTILE. Each level starts from the particles whose losses were below
    the last level's quantile. The particles make random moves in the cube; a move is refused if it leads to a loss that
    is not below this quantile. An error of 1 in the logarithm of the volume is an error of only 1/S in the logarithm of
    d_eps. The error of the result is given by Student's interval over independent runs. This error does not cover a
    bias, which falls with the number of particles: on a ball with S = 20 the bias is 1.4% of d_eps with 150 particles,
    and below 1% with 500.

    Args:
        losses: L at points (N, S).
        below: eps.
        centre: the centre of the cube, shape (S,).
        side: the side of the cube.
        rng: the generator that draws points and moves.
        particles: number of particles on each level; default 500.
        runs: number of independent runs; default 5.
        level: confidence level of Student's interval; default 0.95.

    Raises:
        ValueError: the cube is unbounded; there are fewer than 2 runs or 10 particles; the region is not reached; a
            loss is NaN.
    Source: fedgucci/F3, "Estimating d_eps" (b).
    """
    centre = _checked_cube(centre, side)
    if runs < 2 or particles < 10:
        raise ValueError(f"{runs} runs of {particles} particles; an error needs 2 runs or more, and each 10 particles")
    logs = [log_share(losses, below, centre, side, rng, particles) / len(centre) for _ in range(runs)]
    half = float(stdtrit(runs - 1, (1 + level) / 2) * np.std(logs, ddof=1) / np.sqrt(runs))
    low, high = (side * np.exp(np.mean(logs) + sign * half) for sign in (-1, 1))
    return Estimate.between(
        low, min(high, max(side, low)), f"multilevel splitting, Student {level:.0%} of {runs} runs", Rigour.SAMPLED
    )


def log_share(
    losses: Losses, below: float, centre: Float[np.ndarray, " S"], side: float, rng: np.random.Generator, particles: int
) -> float:
    """One run of the splitting: the logarithm of the share of the cube on which L < eps.

    Args:
        losses: L at points (N, S).
        below: eps.
        centre: the centre of the cube, shape (S,).
        side: the side of the cube.
        rng: the generator that draws points and moves.
        particles: number of particles on each level.

    Raises:
        ValueError: as `split_region_size`.
    """
    centre = _checked_cube(centre, side)
    at = centre + side * (rng.random((particles, len(centre))) - 0.5)
    heights, total = _heights(losses, at), 0.0

    def in_the_cube(points: np.ndarray) -> np.ndarray:
        return np.where((np.abs(points - centre) <= side / 2).all(axis=1), _heights(losses, points), np.inf)

    for _ in range(MOST_LEVELS):
        level = float(np.sort(heights)[int(QUANTILE * particles)])
        if level <= below:
            share = float(np.mean(heights < below))
            if share == 0:
                break
            return total + float(np.log(share))
        kept = heights < level
        if not kept.any():
            break
        total += float(np.log(np.mean(kept)))
        parents = rng.choice(np.flatnonzero(kept), size=particles)
        at, heights = _moved(in_the_cube, level, at[parents], heights[parents], 1e-12 * side, rng)
    raise ValueError(
        f"the region L < {below:g} was not reached by {particles} particles; the lowest loss met is "
        f"{heights.min():.6g}: eps may lie below the smallest loss in the cube"
    )


def _moved(
    losses: Losses, level: float, at: np.ndarray, heights: np.ndarray, least: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The particles after Metropolis moves, which leave the uniform law on {L < level} invariant.

    A move is Gaussian with a random scale. The size of a move in each coordinate is proportional to the particles'
    spread, or to `least` if that is larger. Copies of one particle stay close for a number of moves that grows like the
    number of parameters. With fewer moves the few particles of smallest loss represent too much of the volume.
    """
    count, size = at.shape
    spread = np.maximum(at.std(axis=0), least)
    for _ in range(max(LEAST_MOVES, MOVES_A_PARAMETER * size)):
        scale = np.exp(rng.uniform(np.log(0.1), np.log(2.0), size=(count, 1))) / np.sqrt(size)
        tried = at + scale * spread * rng.normal(size=at.shape)
        new = losses(tried)
        taken = new < level
        at, heights = np.where(taken[:, None], tried, at), np.where(taken, new, heights)
    return at, heights


def _heights(losses: Losses, points: np.ndarray) -> np.ndarray:
    """The losses at the points. A loss may be +inf, but not NaN."""
    heights = np.asarray(losses(points), float)
    if np.isnan(heights).any():
        raise ValueError(f"the loss is NaN at {int(np.isnan(heights).sum())} of {heights.size} points")
    return heights


def _checked_cube(centre: np.ndarray, side: float) -> np.ndarray:
    centre = finite_array("centre", centre)
    if centre.ndim != 1 or not len(centre):
        raise ValueError(f"the cube's centre has shape {centre.shape}; it must be a vector of weights")
    if side is None or np.isinf(side):
        raise ValueError(
            "d_eps needs a bounded domain, the side of a cube: over all weights the region is infinite. A unit's "
            "weights (u, v) can be rescaled to (s u, v / s) without changing the network, so each region of low loss "
            "runs along hyperbolas to infinity, and its volume diverges"
        )
    if not side > 0:
        raise ValueError(f"the cube's side is {side}; it must be positive")
    return centre
