"""Lemma 1: the order of the gap between averaged outputs (WENS) and averaged weights (FMA) as clients come together."""

from collections.abc import Callable, Mapping

import numpy as np
import sympy as sp

from bounds import IMA, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.averaging.cases.scale_ladder import SCALE_LADDERS, ScaleLadder, exponent, relu
from bounds.mutants import shifted

Case = Callable[[], ScaleLadder]

LEAST, LEAST_FIXED = 0.01, 0.002  # least coefficients: the term that decides an exponent must exceed higher powers
MUTANTS = tuple(shifted(sp.Rational(quarters, 4)) for quarters in (-2, -1, 1, 2))
TWO = sp.Integer(2)

OFF_KINK = Hypothesis(
    "off-kink", "no kink of a hidden unit comes between the fixed x and any client", lambda case: case.kink_distance
)
ROWS_NONZERO = Hypothesis(
    "rows-nonzero",
    "every hidden row of the average is longer than any client moves it",
    lambda case: case.shortest_row,
)
KINKS_MOVE = Hypothesis(
    "kinks-move",
    f"some client moves the kink of a unit with v_i != 0: |v_i| |move across u_i| >= {LEAST} Delta",
    lambda case: case.kink_motion - LEAST,
)
FIXED_SECOND_ORDER = Hypothesis(
    "second-order",
    f"at the fixed x the term in Delta^2 has a coefficient of at least {LEAST_FIXED}, of ReLU and of tanh networks",
    lambda case: case.fixed_second_order - LEAST_FIXED,
)
SECOND_ORDER = Hypothesis(
    "second-order",
    f"of tanh networks the term in Delta^2 has a coefficient of at least {LEAST} in the mean over the circle",
    lambda case: case.mean_second_order - LEAST,
)


def _network(hidden: list, readout: list, moves: list, angle: float = 0.3) -> ScaleLadder:
    return ScaleLadder(np.array(hidden), np.array(readout), np.array(moves), np.array([1, 1]), angle)


def on_a_kink() -> ScaleLadder:
    """One unit, x at right angles to its row: the gap is of first order in Delta."""
    return _network([[1.0, 0.0]], [1.0], [[0.0, 1.0, 1.0], [0.0, -1.0, -1.0]], angle=np.pi / 2)


def fixed_kinks() -> ScaleLadder:
    """One unit whose row only changes its length: the kink does not move, and the gap is smooth elsewhere."""
    return _network([[1.0, 0.0]], [1.0], [[1.0, 0.0, 1.0], [-1.0, 0.0, -1.0]])


def zero_row() -> ScaleLadder:
    """An average with a unit whose row is 0, so that clients' kinks may be anywhere: the gap is of first order."""
    moves = [[0.0, 1.0, 0.0, 1.0, 1.0, 0.5], [0.0, -1.0, 0.0, -1.0, -1.0, -0.5]]
    return _network([[1.0, 0.0], [0.0, 0.0]], [1.0, 1.0], moves)


def _in_norm(
    name: str, norm: str, left: str, relu_power: sp.Expr, note: str, needed: Mapping[Hypothesis, Case]
) -> Statement:
    """The statement for one of NORMS."""
    return Statement(
        id=f"averaging/I3-{name}",
        title=f"Gap between ensemble and averaged network, {norm} over x",
        kind=Kind.RATE,
        source=Source(IMA, "Lemma 1, Eq (6)-(7)"),
        note=note,
        hypotheses=(*needed, SECOND_ORDER),
        forms={Form.NEW: Claim((relu_power, TWO), note="exponent of Delta: ReLU networks; tanh networks")},
        measure=lambda case: tuple(exponent(norms[norm]) for norms in (case.relu_norms, case.tanh_norms)),
        left_formula=tuple(f"exponent in Delta of {left} of {network} networks" for network in ("ReLU", "tanh")),
        says_left=f"log-log slope of the {norm} of |f_WENS - f_FMA| over x on the circle as Delta falls from 2^-8 to "
        "2^-17: of ReLU networks (integrated exactly from kink to kink), and of tanh networks",
        families=(SCALE_LADDERS,),
        necessity={hypothesis.name: case for hypothesis, case in needed.items()},
        mutants=MUTANTS,
        uses=("averaging/I3",),
    )


STATEMENTS = (
    Statement(
        id="averaging/I3",
        title="Gap between ensemble and averaged network at one input",
        kind=Kind.RATE,
        source=Source(IMA, "Lemma 1, Eq (6)-(7)"),
        note="f_WENS - f_FMA = <grad f, sum p_k Delta_k> + O(Delta^2). The inner product is 0, since the moves are "
        "centred at the average (the statement defines Delta_k as norms, where the vectors of the proof are "
        "meant); the condition on n_i/n_j is not used. The lemma is true for networks with two derivatives, and "
        "for ReLU at a fixed x that no kink crosses, where the gap is exactly of second order. At an x on a kink "
        "the exponent is 1. For the largest value over x see I3-sup, for the mean square I3-L2, for the mean I3-L1",
        hypotheses=(OFF_KINK, FIXED_SECOND_ORDER),
        forms={Form.STATED: Claim((TWO, TWO), note="exponent of Delta: ReLU networks; tanh networks")},
        measure=lambda case: tuple(exponent(case.fixed_gap(activation)) for activation in (relu, np.tanh)),
        left_formula=tuple(
            f"exponent in Delta of |f_WENS(x) - f_FMA(x)| of {name} networks" for name in ("ReLU", "tanh")
        ),
        says_left="log-log slope of |f_WENS(x) - f_FMA(x)| at one x as Delta falls from 2^-8 to 2^-17: of ReLU "
        "networks, and of tanh networks",
        families=(SCALE_LADDERS,),
        necessity={OFF_KINK.name: on_a_kink},
        mutants=MUTANTS,
    ),
    _in_norm(
        "L1",
        "mean",
        "E_x |f_WENS(x) - f_FMA(x)|",
        TWO,
        "a kink moves by O(Delta), and on the inputs that it crosses f changes by O(Delta): O(Delta^2) in the mean, "
        "like all other terms. So the lemma's order holds for ReLU too in the mean over x, for x in two dimensions or "
        "more. Proof: docs/proofs/connectivity.md#averages-of-near-networks",
        {ROWS_NONZERO: zero_row},
    ),
    _in_norm(
        "L2",
        "root mean square",
        "sqrt(E_x (f_WENS(x) - f_FMA(x))^2)",
        sp.Rational(3, 2),
        "moving kinks change f by O(Delta) on a share O(Delta) of the circle: the root mean square has the exponent "
        "3/2, so that O(Delta^2) is false for it. Proof: docs/proofs/connectivity.md#averages-of-near-networks",
        {ROWS_NONZERO: zero_row, KINKS_MOVE: fixed_kinks},
    ),
    _in_norm(
        "sup",
        "largest value",
        "sup_x |f_WENS(x) - f_FMA(x)|",
        sp.Integer(1),
        "on a kink the gap is of first order, so that O(Delta^2) is false uniformly in x. Proof: "
        "docs/proofs/connectivity.md#averages-of-near-networks",
        {KINKS_MOVE: fixed_kinks},
    ),
)
