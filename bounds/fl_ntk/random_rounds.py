"""Statements on random rounds: second moments of the residual, stability, and shuffled passes over the samples.

Clients and batches are drawn.
"""

from itertools import combinations

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Kind, Source, Statement
from bounds.fl_ntk.cases.random_round import RANDOM_ROUNDS, SHUFFLED_ROUNDS, SIZES, RandomRound, operators
from bounds.fl_ntk.terms.round_map import MAP_SYMBOLS, RESPONSE, H, map_constants
from bounds.mutants import MILLIONTH_MORE, power, replaced, reversed_comparison, scaled, sign_flipped
from bounds.symbols import N, eta_global, eta_local, n
from ntkfl.estimate import Estimate

s = sp.Symbol("s", positive=True)
# for each client the diagonal matrix with 1 at the client's samples and 0 elsewhere
OWN = tuple(sp.MatrixSymbol(f"E_{c + 1}", n, n) for c in range(len(SIZES)))
C = sp.MatrixSymbol("C", n, n)
diagonal = sp.MatrixSymbol("C_d", n, n)
pair, alone = (sp.symbols(f"{name}_1:{len(SIZES) + 1}", real=True) for name in ("gamma", "delta"))

SERVER = eta_global / N


def _own(matrix: sp.MatrixExpr) -> sp.MatrixExpr:
    """The clients' own blocks of a matrix."""
    return sp.MatAdd(*(e * matrix * e for e in OWN))


def _moments() -> tuple[sp.MatrixExpr, sp.MatrixExpr]:
    """E r r' after a round, once for each of the two measurements: over every choice, and by the library."""
    batches = sp.MatAdd(
        *(
            eta_local**2 * ((gamma - 1) * e * C * e + delta * e * diagonal * e)
            for e, gamma, delta in zip(OWN, pair, alone, strict=True)
        )
    )
    mean = H * RESPONSE  # the statement's A
    every, one = N * (s - 1) / (s * (N - 1)), N * (N - s) / (s * (N - 1))
    drawn = every * mean * C * mean.T + one * H * _own(RESPONSE * C * RESPONSE) * H + N / s * H * batches * H
    expected = C - SERVER * (mean * C + C * mean.T) + SERVER**2 * drawn
    return expected, expected


def _constants_moments(case: RandomRound) -> dict:
    owner, batch, moments = case.problem.owner, case.batch, case.moments(1)
    values = map_constants(case, case.gram) | {C: moments, diagonal: moments * np.eye(len(owner)), s: case.cohort}
    for c, size in enumerate(np.bincount(owner)):
        drawn = min(batch or size, size)
        gamma = Estimate.exact(1.0) if drawn == size else _ratio(size * (drawn - 1), drawn * (size - 1))
        values |= {OWN[c]: np.diag((owner == c).astype(float)), pair[c]: gamma, alone[c]: _ratio(size, drawn) - gamma}
    return values


def _ratio(above: int, below: int) -> Estimate:
    return Estimate(above / below, 2e-16 * above / below, "rounding")


def _measure_moments(case: RandomRound) -> tuple[Estimate, Estimate]:
    regime = case.library(case.setup.eta_global)
    mean = regime.residual(2)
    return case.moments(2), case.rounded(regime.covariance(2) + np.outer(mean, mean))


ASIDE = 1e-3  # the rate is checked at this relative distance from the limit, below and above it
LIBRARY = 1e-8  # the relative error of the library's result by Arnoldi's method

rho = sp.Symbol("rho_2", positive=True)
RADIUS = "max_i |lambda_i(E M otimes M)|"


def _constants(case: RandomRound) -> dict:
    first, second = operators(case)
    radius = float(np.abs(np.linalg.eigvals(np.linalg.solve(first, second))).max())
    return {rho: Estimate(radius, 1e-10 * radius, "rounding of eigenvalues"), N: case.problem.n_clients}


def _measure(case: RandomRound) -> tuple[Estimate, Estimate]:
    limit = case.library(1.0).step_limits.eta_global
    rate = case.library(limit).rate
    return Estimate(limit, LIBRARY * limit, "Arnoldi's method"), Estimate(rate, LIBRARY, "Arnoldi's method")


def _sides(case: RandomRound) -> tuple[Estimate, Estimate]:
    limit = case.library(1.0).step_limits.eta_global
    below, above = case.radius((1 - ASIDE) * limit), case.radius((1 + ASIDE) * limit)
    return below, Estimate(1 / above.value, above.error / above.value**2, above.method)


two, three = sp.symbols("q_2 q_3", positive=True)
Z, B, triples, step = (sp.MatrixSymbol(name, n, n) for name in ("Z", "B", "B_2", "S"))
r = sp.MatrixSymbol("r_1", n, 1)

# the matrix P of a client with up to three samples
MEAN = step - two * step * B * step + three * step * (B * step * B - triples) * step


def _shuffled_moments() -> tuple[sp.MatrixExpr, ...]:
    """E r and E r r' after a round, each twice, once for each of the two measurements."""
    moved = H * MEAN
    pairs = N * (s - 1) / (s * (N - 1)) * (moved * C * moved.T)
    drawn = pairs + H * Z * H
    mean, second = r - SERVER * moved * r, C - SERVER * (moved * C + C * moved.T) + SERVER**2 * drawn
    return mean, mean, second, second


def _of_pass(own: np.ndarray, step: float, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E R and E R C R' for a client's pass, by recursion over the sets of samples that came before."""
    size, unit = len(own), np.eye(len(own))
    known: dict[frozenset[int], tuple[np.ndarray, np.ndarray]]
    known = {frozenset(): (np.zeros_like(own), np.zeros_like(own))}
    for count in range(1, size + 1):
        for now in map(frozenset, combinations(range(size), count)):
            mean, square = np.zeros_like(own), np.zeros_like(own)
            for last in now:
                before, spread = known[now - {last}]
                here = np.outer(unit[last], unit[last])
                kept = unit - step * here @ own
                mixed = step * kept @ before @ second @ here
                mean += (kept @ before + step * here) / count
                square += (kept @ spread @ kept.T + mixed + mixed.T + step**2 * here @ second @ here) / count
            known[now] = mean, square
    return known[frozenset(range(size))]


def _shuffled_constants(case: RandomRound) -> dict:
    owner, known, count, size = case.problem.owner, case.moments(1), case.problem.n_clients, len(case.gram)
    own, of_cohort = (owner[:, None] == owner) & ~np.eye(size, dtype=bool), case.cohort
    steps, off = case.setup.eta_local * np.diag(np.bincount(owner)[owner].astype(float)), case.gram * own
    blocks = np.zeros((size, size))
    for owned in case.problem.members:
        at, second = np.ix_(owned, owned), np.asarray(known.value)[np.ix_(owned, owned)]
        mean, square = _of_pass(case.gram[at], steps[owned[0], owned[0]], second)
        pairs = count * (of_cohort - 1) / (of_cohort * (count - 1))
        blocks[at] = count / of_cohort * square - pairs * mean @ second @ mean.T
    return map_constants(case, case.gram) | {
        C: known,
        Z: case.rounded(blocks),
        B: off,
        triples: np.diag(np.diag(off @ steps @ off)),
        step: steps,
        r: case.rounded(np.asarray(case.mean(1).value)[:, None]),
        s: of_cohort,
        two: Estimate.exact(0.5),
        three: Estimate(1 / 6, 1e-17, "rounding"),
    }


def _measure_shuffled(case: RandomRound) -> tuple[Estimate, ...]:
    regime = case.library(case.setup.eta_global)
    mean = regime.residual(2)
    second = regime.covariance(2) + np.outer(mean, mean)
    return case.mean(2), case.rounded(mean), case.moments(2), case.rounded(second)


STATEMENTS = (
    Statement(
        id="fl-ntk/second-moments",
        title="Random rounds: a round takes C = E r r' to C - h (A C + C A') + h^2 L2(C), exactly",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/random_rounds.md#second-moments-of-a-round"),
        note="each round draws s of N clients without replacement; equal weights, h = eta_g/N, A = H P. Batches of "
        "b are drawn without replacement, independently from step to step, and scaled by n_c/b. Here there is one "
        "local step, whose noise is (gamma - 1) C_cc + (n_c/b - gamma) diag(C_cc) with gamma = n_c (b - 1)/(b (n_c "
        "- 1)). For several steps the library has a recursion",
        new=Claim(_moments),
        constants=_constants_moments,
        measure=_measure_moments,
        symbols=MAP_SYMBOLS
        | {
            H: "Gram matrix H_inf",
            C: "E r r' after a round, over every choice of clients and batches",
            diagonal: "the diagonal of C",
            s: "clients in a round",
        }
        | {e: f"1 on the samples of client {c + 1}, on the diagonal" for c, e in enumerate(OWN)}
        | {gamma: f"gamma of client {c + 1}, 1 without batches" for c, gamma in enumerate(pair)}
        | {delta: f"n_c/b - gamma of client {c + 1}" for c, delta in enumerate(alone)},
        left_formula=("E r(2) r(2)^T",) * 2,
        says_left="E r r' after two rounds: over every choice of clients and batches, each trained step by step; and "
        "by the library's random rounds",
        families=RANDOM_ROUNDS,
        mutants=(
            MILLIONTH_MORE,
            replaced(s, N, "as if every client took part", Change.FACTOR),
            power(eta_global, sp.Rational(1, 2)),
            sign_flipped(alone[0], "what batches leave on the diagonal"),
            replaced(N - 1, N, "clients drawn with replacement", Change.INDEX),
        ),
        uses=("fl-ntk/X.1",),
    ),
    Statement(
        id="fl-ntk/mean-square",
        title="In random rounds the mean square falls for server steps below N/rho(L1^-1 L2)",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/random_rounds.md#the-largest-stable-server-step"),
        note="a round takes C = E r r' to C - h L1(C) + h^2 L2(C). L1^-1 and L2 map positive matrices to positive "
        "ones. So the radius of the map is below 1 exactly if the radius of h L1^-1 L2 is below 1",
        new=Claim((N / rho, sp.Integer(1))),
        constants=_constants,
        measure=_measure,
        symbols={rho: "spectral radius of L1^-1 L2, written out as matrices of n^2 rows"},
        left_formula=(f"max {{eta_g : {RADIUS} <= 1}}", f"{RADIUS} of the largest stable step"),
        says_left="by the library's random rounds: the limit of the server step, and the mean-square rate at that "
        "limit",
        families=RANDOM_ROUNDS,
        mutants=(scaled(sp.Rational(100_001, 100_000)), power(N, 2), power(rho, 2), replaced(rho, rho + 1, "rho + 1")),
        uses=("fl-ntk/second-moments",),
    ),
    Statement(
        id="fl-ntk/mean-square-sides",
        title="A thousandth below the largest stable step the mean square falls; a thousandth above it some mean "
        "square grows",
        kind=Kind.UPPER,
        source=Source(BEYOND, "docs/proofs/random_rounds.md#the-largest-stable-server-step"),
        note="checked without L1 and L2",
        new=Claim((sp.Integer(1), sp.Integer(1))),
        measure=_sides,
        left_formula=(
            f"{RADIUS} at eta_g = (1 - 10^{{-3}}) eta_{{max}}",
            f"1 / {RADIUS} at eta_g = (1 + 10^{{-3}}) eta_{{max}}",
        ),
        says_left="the spectral radius of E M (x) M over every choice of clients and batches, at .999 times the "
        "library's limit, and the inverse of this radius at 1.001 times the limit",
        families=RANDOM_ROUNDS,
        mutants=(scaled(sp.Rational(99, 100)), reversed_comparison()),
        uses=("fl-ntk/mean-square",),
    ),
    Statement(
        id="fl-ntk/shuffled-pass",
        title="Rounds of shuffled passes: E r by chains of samples, E r r' by recursion over sets of earlier samples",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/random_rounds.md#shuffled-passes"),
        note="each round draws s of N clients without replacement; equal weights. A client takes its samples one "
        "by one in a random order, with n_c times the step. l different samples come in a given order with "
        "probability 1/l!, so that for up to three samples the mean displacement is S - S B S/2 + S (B S B - B_2) "
        "S/6",
        new=Claim(_shuffled_moments),
        constants=_shuffled_constants,
        measure=_measure_shuffled,
        symbols={H: MAP_SYMBOLS[H]}
        | {
            C: "E r r' after a round, over every choice of clients and orders",
            r: "E r after a round, over every choice of clients and orders",
            Z: "the clients' own blocks of N^2 E d d', d the mean displacement, less the blocks of the first term; by "
            "recursion over the sets of samples that came before",
            B: "H between different samples of a client, 0 elsewhere",
            triples: "the diagonal of B S B",
            step: "eta_l n_c at the samples of client c, on the diagonal",
            s: "clients in a round",
            two: "1/2, the probability that a given one of two samples comes first",
            three: "1/6, the probability of each order of three samples",
        },
        left_formula=("E r(2)",) * 2 + ("E r(2) r(2)^T",) * 2,
        says_left="E r and E r r' after two rounds: over every choice of clients and orders, each trained step by "
        "step; and by the library's random rounds",
        families=SHUFFLED_ROUNDS,
        mutants=(
            MILLIONTH_MORE,
            replaced(two, 2 * two, "as if every sample met what all others left", Change.FACTOR),
            replaced(three, 2 * three, "chains of three as likely as one sample's being last", Change.FACTOR),
            replaced(three, -three, "the sign of chains of three", Change.SIGN),
            replaced(s, N, "as if every client took part", Change.FACTOR),
        ),
        uses=("fl-ntk/second-moments",),
    ),
)
