"""Random rounds whose clients pass over their samples one by one, in a random order."""

from itertools import combinations

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.fl_ntk.cases.random_round import SHUFFLED_ROUNDS, RandomRound
from bounds.fl_ntk.terms.round_map import MAP_SYMBOLS, H, map_constants
from bounds.mutants import MILLIONTH_MORE, replaced
from bounds.symbols import N, eta_global, n
from ntkfl.estimate import Estimate

s, two, three = sp.symbols("s q_2 q_3", positive=True)
C, Z, B, triples, step = (sp.MatrixSymbol(name, n, n) for name in ("C", "Z", "B", "B_2", "S"))
r = sp.MatrixSymbol("r_1", n, 1)

# P of a client with up to three samples
MEAN = step - two * step * B * step + three * step * (B * step * B - triples) * step
SERVER = eta_global / N


def _moments() -> tuple[sp.MatrixExpr, ...]:
    """E r and E r r' after a round, each for both measurements."""
    moved = H * MEAN
    pairs = N * (s - 1) / (s * (N - 1)) * (moved * C * moved.T)
    drawn = pairs + H * Z * H
    mean, second = r - SERVER * moved * r, C - SERVER * (moved * C + C * moved.T) + SERVER**2 * drawn
    return mean, mean, second, second


def _of_pass(own: np.ndarray, step: float, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E R and E R C R' of a client's pass, by recursion over the sets of samples that came before."""
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


def _constants(case: RandomRound) -> dict:
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


def _measure(case: RandomRound) -> tuple[Estimate, ...]:
    regime = case.library(case.setup.eta_global)
    mean = regime.residual(2)
    second = regime.covariance(2) + np.outer(mean, mean)
    return case.mean(2), case.rounded(mean), case.moments(2), case.rounded(second)


STATEMENTS = (
    Statement(
        id="fl-ntk/shuffled-pass",
        title="Rounds of shuffled passes: the mean by chains of samples, E r r' by the sets that came before",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/random_rounds.md#shuffled-passes",
            note="each round draws s of N clients without replacement; equal weights. A client takes its samples one "
            "by one in a random order, with n_c times the step. l different samples come in a given order with "
            "probability 1/l!, so that for up to three samples the mean displacement is S - S B S/2 + S (B S B - B_2) "
            "S/6",
        ),
        forms={Form.NEW: Claim(_moments)},
        constants=_constants,
        measure=_measure,
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
