"""Wide networks trained by a method approach that method's exact limit, and stay farther from other methods' limits."""

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Kind, Source, Statement
from bounds.fl_ntk.cases.method_ladder import CONNECTED, METHODS, PULL, SERVER_MOMENTUM, MethodLadder, method_families
from bounds.fl_ntk.terms.local_methods import FEDPROX, beta, mu, shares, shares_of
from bounds.fl_ntk.terms.round_map import IDENTITY, MAP_SYMBOLS, D, H, map_constants, start
from bounds.fl_ntk.terms.state_map import AFTER, CONTROL, MAP, first, halves, product, second
from bounds.ladders.width_rate import HALF, Quantity, statistic, width_rate
from bounds.mutants import index_shifted, power, replaced
from bounds.symbols import K, N, T, eta_local, m, n
from ntkfl import Estimate, gram

connected = sp.Symbol("beta_seg", positive=True)
ones = sp.MatrixSymbol("e", n, 1)

STEEPER = 1 + connected / 3  # E alpha^2 = 1/3, E alpha = 1/2
SEGMENT = (1 + connected / 2) / STEEPER * D**-1 * (IDENTITY - (IDENTITY - eta_local * STEEPER * D) ** K)
GUCCI = IDENTITY - H * shares * SEGMENT
heavy_ball, nesterov, scaffold, feddyn = AFTER.values()
RESIDUAL = {
    "fedavg": MAP**T * start,
    "fedprox": FEDPROX**T * start,
    "fedavgm": heavy_ball,
    "fedavgm-nesterov": nesterov,
    "scaffold": scaffold,
    "feddyn": feddyn,
    "fedgucci": GUCCI**T * start,
}
REACH = 2 * sp.sqrt(sp.Trace(start * start.T) / m) * ones  # 2 |r_0| m^(-1/2) in every entry


def _constants(ladder: MethodLadder) -> dict:
    """The symbols of the maps at infinite width, and the width of the widest networks."""
    problem, size = ladder.problem, ladder.problem.n
    return (
        map_constants(ladder, gram.infinite_estimate(problem.x))
        | {
            shares: shares_of(problem),
            start: -problem.y[:, None],
            ones: np.ones((size, 1)),
            beta: SERVER_MOMENTUM,
            mu: PULL,
            connected: CONNECTED,
            T: ladder.setup.rounds,
            m: ladder.widths[-1],
        }
        | halves(size)
    )


def _measure(ladder: MethodLadder) -> tuple[Estimate, ...]:
    """y_m(T) - y, (networks, n), of the widest networks under each method; then the same with the opposite sign."""
    parts = [Estimate(-ladder.residuals[name][-1][:, -1], ladder.rounding, "rounding bound") for name in RESIDUAL]
    return (*parts, *(-part for part in parts))


STATEMENTS = (
    Statement(
        id="fl-ntk/method-limits",
        title="A wide network under a method stays within 2 |r_0| m^(-1/2) of that method's exact limit",
        kind=Kind.UPPER,
        source=Source(BEYOND, "the maps of docs/proofs/linear_methods.md#state-maps; the distance is observed"),
        note="entry by entry at the ladder's largest width, at which the limits of any two of these methods are "
        "further apart than this bound. The order in m is that of fl-ntk/method-widths. The constant 2 is an "
        "observation, not a theorem (on data of six seeds it was .4 to .8). FedGuCci has one anchor, and Gauss's "
        "two nodes in place of the integral over alpha; in the limit both give the same",
        new=Claim(
            (
                *(sp.MatAdd(known, REACH) for known in RESIDUAL.values()),
                *(sp.MatAdd(REACH, product(-1, known)) for known in RESIDUAL.values()),
            ),
            note="upper and lower bounds: " + ", ".join(RESIDUAL),
        ),
        constants=_constants,
        measure=_measure,
        symbols=MAP_SYMBOLS
        | {
            H: "Gram matrix at infinite width",
            shares: "n_c/n of each sample's client, on the diagonal",
            beta: "momentum of the server",
            mu: "FedProx's and FedDyn's pull",
            connected: "weight of FedGuCci's connectivity loss",
            first: "takes r to the state (r, 0)",
            second: "takes a memory v to the state (0, v)",
            start: "y(0) - y",
            ones: "the column of ones",
        },
        left_formula=("y(T) - y",) * 7 + ("y - y(T)",) * 7,
        says_left="y(T) - y, and its negative, of the networks of the largest width, trained by the engine under each "
        "method",
        families=method_families,
        mutants=(
            power(m, 2),
            power(eta_local, 2),
            index_shifted(T, 1),
            replaced(beta, 0, "no momentum", Change.FACTOR),
            replaced(mu, 2 * mu, "twice the pull", Change.CONSTANT),
            replaced(CONTROL, IDENTITY, "controls that keep what they were", Change.FACTOR),
            replaced(scaffold, MAP**T * start, "FedAvg's map for SCAFFOLD"),
            replaced(feddyn, FEDPROX**T * start, "FedProx's map for FedDyn"),
            replaced(heavy_ball, nesterov, "Nesterov's map for the heavy ball"),
            replaced(connected, 0, "no connectivity loss", Change.FACTOR),
            replaced(shares, IDENTITY / N, "clients of equal weight", Change.FACTOR),
        ),
        uses=("fl-ntk/method-widths", "fl-ntk/state-maps", "fl-ntk/X.14"),
    ),
    width_rate(
        "fl-ntk/method-widths",
        "Networks approach the exact limit of every linear method as m^(-1/2)",
        tuple(
            Quantity(f"max_t |y_m(t) - y_inf(t)| / |r_0| under {name}", HALF, statistic(name), biased=False)
            for name in METHODS
        ),
        source=Source(
            BEYOND, "docs/proofs/linear_methods.md#state-maps, docs/proofs/finite_width.md#powers-of-the-width"
        ),
        note="as for FL-NTK's algorithm (fl-ntk/W-outputs): H(0) - H_inf is of the order m^(-1/2), and so is the "
        "mean change of the outputs by neurons that cross kinks. Every method's state map passes both on to the "
        "outputs. With eleven widths a fit without the two smallest shows the bias; a next-order term would only "
        "fit noise",
        claim_note="exponents of max_t |y_m(t) - y_inf(t)| / |r_0|: " + ", ".join(METHODS),
        says_left="log-log slopes over widths 2^8..2^13 of the RMS over networks of max_t |y_m(t) - y_inf(t)| / |r_0|, "
        "networks trained by the engine, all from the residual r_0",
        families=method_families,
        uses=("fl-ntk/W-outputs", "fl-ntk/state-maps", "fl-ntk/X.14"),
    ),
)
