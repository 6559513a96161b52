"""Statements on SCAFFOLD and FedDyn with drawn clients.

The statements concern the second moments of the residual and of the vectors that clients keep.
"""

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import BEYOND, Change, Claim, Family, Kind, Source, Statement
from bounds.fl_ntk.cases.drawn_memory import SIZES, DrawnMemory, drawn_memory
from bounds.fl_ntk.terms.canonical import Canonical, blocks
from bounds.fl_ntk.terms.local_methods import OF_PROX, mu
from bounds.fl_ntk.terms.round_map import IDENTITY, MAP_SYMBOLS, RESPONSE, D, H, map_constants
from bounds.fl_ntk.terms.state_map import LATER, LENGTH
from bounds.mutants import MILLIONTH_MORE, power, replaced, sign_flipped
from bounds.symbols import K, N, eta_global, n
from ntkfl import Estimate


def _drawn(seed: int) -> DrawnMemory:
    """One to three of three clients, up to four local steps in a round, an alpha of .1 to 2, and noise of up to 1."""
    rng = np.random.default_rng([seed, 9])
    steps, reach, server = int(rng.integers(1, 5)), float(rng.uniform(0.05, 1.5)), float(rng.uniform(0.1, 2))
    pull, noise = float(rng.uniform(0.1, 2)), float(rng.uniform(0, 1))
    return drawn_memory(seed, 1 + seed % 3, steps, reach, server, pull, noise, int(rng.integers(1, 5)))


def _any() -> SearchStrategy[DrawnMemory]:
    """Rounds like those of `_drawn`, with step sizes up to the clients' limit."""
    return st.builds(
        drawn_memory,
        st.integers(0, 2**16),
        st.integers(1, 3),
        st.integers(1, 4),
        st.floats(0.01, 1.9),
        st.floats(0.05, 4),
        st.floats(0.05, 4),
        st.floats(0, 2),
        st.integers(1, 4),
    )


DRAWN_MEMORIES = (Family("sphere, n=6, N=3, clients that remember are drawn", _drawn, _any, trials=18, most=18),)


s, noise = sp.Symbol("s", positive=True), sp.Symbol("sigma_w", nonnegative=True)
# for each client the diagonal matrix with 1 at the client's samples and 0 elsewhere
OWN = tuple(sp.MatrixSymbol(f"E_{c + 1}", n, n) for c in range(len(SIZES)))
OF_SCAFFOLD, OF_FEDDYN = (tuple(sp.MatrixSymbol(f"{m}_{of}", n, n) for m in "CXB") for of in ("s", "d"))
# E r x', E m x' and E x x', where x is FedDyn's summed noise
OF_SUM = tuple(sp.MatrixSymbol(name, n, n) for name in "YWU")
before = sp.Symbol("K_1", positive=True)

# the probability that a client is drawn, and that a pair of clients is drawn
ONE, PAIR = s / N, s * (s - 1) / (N * (N - 1))


def _round(
    known: tuple[sp.MatrixSymbol, ...], ahead: sp.Expr, pushed: sp.Expr, kept: sp.Expr, fits: tuple
) -> tuple[Canonical, ...]:
    """E r r', E r m' and E m m' after r <- r - ahead H m - pushed H w and m <- m + kept w.

    w is P r - S m at the samples of the drawn clients and 0 elsewhere; `fits` is (P, S). The factors `ahead`, `pushed`
    and `kept` are numbers: `ahead` says how far the memory m moves the residual r in every round, `pushed` how far w
    moves r, and `kept` how much of w is added to the memory.
    """
    c, x, b = map(Canonical, known)
    p, q = fits
    with_r, with_m = c * p - x * q.T, x.T * p - b * q.T  # E r (P r - S m)' and E m (P r - S m)'
    whole = p * c * p - p * x * q.T - q * x.T * p + q * b * q.T
    drawn = PAIR * whole + (ONE - PAIR) * blocks(OWN, whole)
    stays = c - ahead * (x * H + H * x.T) + ahead**2 * H * b * H
    met = with_r - ahead * H * with_m
    residual = stays - ONE * pushed * (met * H + H * met.T) + pushed**2 * H * drawn * H
    crossed = x - ahead * H * b + ONE * kept * met - ONE * pushed * H * with_m.T - pushed * kept * H * drawn
    memory = b + ONE * kept * (with_m + with_m.T) + kept**2 * drawn
    return residual, crossed, memory


def _moments() -> tuple[sp.MatrixExpr, ...]:
    """The moments of SCAFFOLD, and then those of FedDyn.

    FedDyn's server sums up noise, and the summed noise has an effect on the outputs. In every round this effect is
    subtracted from the residual. The comments and `OF_SUM` call this effect x; the variable x is E r m'.
    """
    later = LATER * (H / N - D) + LENGTH * IDENTITY
    c, x, b = _round(OF_SCAFFOLD, eta_global * LENGTH / N, eta_global / s, 1 / LENGTH, (RESPONSE, later))
    c += (eta_global * noise) ** 2 * H
    of_scaffold = c, c, x, b
    ahead, pushed = -1 / (mu * N), 1 / s + 1 / N
    c, x, b = _round(OF_FEDDYN, ahead, pushed, -mu, (OF_PROX, -OF_PROX))
    with_r, with_m, summed = map(Canonical, OF_SUM)
    met = OF_PROX * (with_r + with_m)
    # E r x' before x is subtracted from r and the noise is added
    residual = with_r - ahead * H * with_m - ONE * pushed * H * met
    memory = with_m - ONE * mu * met
    c = c - residual - residual.T + summed + ((1 + ONE) * noise) ** 2 * H
    residual = residual - summed - (1 + ONE) * ONE * noise**2 * H
    of_feddyn = c, c, x - memory.T, b, residual, memory, summed + (ONE * noise) ** 2 * H
    return tuple(moment.expression for moment in of_scaffold + of_feddyn)


def _constants(case: DrawnMemory) -> dict:
    owner = case.problem.owner
    values = map_constants(case, case.gram) | {s: case.cohort}
    values |= {mu: Estimate.exact(case.pull), noise: Estimate.exact(case.noise)}
    for method, symbols in (("scaffold", OF_SCAFFOLD), ("feddyn", OF_FEDDYN + OF_SUM)):
        values |= dict(zip(symbols, case.moments_of(case.moments(method, 1)), strict=True))
    values |= {before: case.first}
    return values | {e: np.diag((owner == c).astype(float)) for c, e in enumerate(OWN)}


def _measure(case: DrawnMemory) -> tuple[Estimate, ...]:
    methods = ("scaffold", "feddyn")
    return sum((case.after_two(case.moments(method, 2), case.library(method)) for method in methods), ())


STATEMENTS = (
    Statement(
        id="fl-ntk/drawn-memory",
        title="SCAFFOLD and FedDyn with drawn clients: the second moments of residual and memories, exactly",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/random_rounds.md#clients-that-remember"),
        note="each round draws s of N clients without replacement and has its own number of local steps; equal "
        "weights, full batches, noise of standard deviation sigma_w on every weight of the mean displacement. Phi_c "
        "has the features of client c's samples as rows, Phi Phi' = H. SCAFFOLD's control of client c is -Phi_c'm_c, "
        "FedDyn's dual is Phi_c'm_c. A round is r <- r - a H m - t H w, m <- m + l w, with w = P r - S m at the drawn "
        "clients' samples and 0 elsewhere. SCAFFOLD (option II) has a = eta_g k/N, t = eta_g/s, l = 1/k, S = "
        "G (H/N - D) + k with k = eta_l K and G = D^-1 (k - P). FedDyn has a = -1/(mu N), t = 1/s + 1/N, l = -mu, S = "
        "-P, where P has the pull mu; the server sums the noise up. With x the effect of this sum on the outputs, and "
        "xi the effect of the round's noise, the residual also loses x + (1 + s/N) xi, and x gains s/N xi",
        new=Claim(_moments),
        constants=_constants,
        measure=_measure,
        symbols=MAP_SYMBOLS
        | {H: "Gram matrix H_inf", s: "clients in a round", mu: "FedDyn's alpha"}
        | {noise: "standard deviation of the noise on every weight of the mean displacement"}
        | {
            symbol: f"{what} of {method} after a round, from every cohort"
            for method, symbols in (("SCAFFOLD", OF_SCAFFOLD), ("FedDyn", OF_FEDDYN))
            for symbol, what in zip(symbols, ("E r r'", "E r m'", "E m m'"), strict=True)
        }
        | {
            symbol: f"{what} of FedDyn after a round, from every cohort"
            for symbol, what in zip(OF_SUM, ("E r x'", "E m x'", "E x x'"), strict=True)
        }
        | {e: f"1 on the samples of client {c + 1}, on the diagonal" for c, e in enumerate(OWN)},
        left_formula=(("E r(2) r(2)^T",) * 2 + ("E r(2) m(2)^T", "E m(2) m(2)^T")) * 2
        + ("E r(2) x(2)^T", "E m(2) x(2)^T", "E x(2) x(2)^T"),
        says_left="for SCAFFOLD and then for FedDyn, E r r', E r m' and E m m' after two rounds, and those with x of "
        "FedDyn: over every choice of clients, with the drawn clients' steps and the server's vector computed in the "
        "weights; E r r' also by the library's random rounds",
        families=DRAWN_MEMORIES,
        mutants=(
            MILLIONTH_MORE,
            replaced(s, N, "as if every client took part", Change.FACTOR),
            replaced(N - 1, N, "clients drawn with replacement", Change.INDEX),
            replaced(noise, noise * sp.Rational(1_001, 1_000), "a little more noise", Change.FACTOR),
            power(eta_global, sp.Rational(1, 2)),
            power(mu, 2),
            replaced(K, before, "the local steps of the round before", Change.INDEX),
            sign_flipped(OF_SUM[0], "the noise that FedDyn's server has summed up"),
        ),
        uses=("fl-ntk/state-maps",),
    ),
)
