"""Eqs (11) and (12): the window of anchors, and the objective that averages over it."""

import numpy as np
import sympy as sp

from bounds import Claim, Form, Kind, Source, Statement
from bounds.fedgucci.cases.anchor_window import ANCHOR_WINDOWS, AnchorWindow
from bounds.mutants import index_shifted, power, scaled, sign_flipped, without
from bounds.symbols import N, t
from bounds.vocabulary import FEDGUCCI
from ntkfl.connectivity.barrier import connectivity_loss
from ntkfl.estimate import Estimate

EPS = np.finfo(float).eps
beta, size, own, cross, anchors = sp.symbols("beta W_t r_2 C A_2", real=True)


def _residual(case: AnchorWindow, readout: np.ndarray) -> np.ndarray:
    return np.maximum(case.x @ case.client.hidden.T, 0) @ readout - case.y


def _constants(case: AnchorWindow) -> dict:
    """Residuals of the client and of the last min(t, N) global models, whose products are averaged over the data."""
    last = case.models[-case.keep :]
    r, others = _residual(case, case.client.readout), [_residual(case, model.readout) for model in last]
    sums = {own: (r**2).mean(), cross: sum((r * a).mean() for a in others), anchors: sum((a**2).mean() for a in others)}
    scale = 1e-13 * (1 + (r**2).mean() + sum((a**2).mean() for a in others))
    known = {symbol: Estimate(value, scale, "rounding bound") for symbol, value in sums.items()}
    return known | {t: len(case.models), N: case.keep, size: len(last), beta: case.beta}


def _measure(case: AnchorWindow) -> tuple[Estimate, ...]:
    """Size of the store, its oldest and newest round, and the client's objective with the anchors in it."""
    held = case.store
    own_loss = float((_residual(case, case.client.readout) ** 2).mean())
    losses = [connectivity_loss(case.client, case.models[round_ - 1], case.x, case.y) for round_ in held]
    total = own_loss + case.beta * float(np.mean([value.value for value in losses]))
    error = case.beta * max(float(value.error) for value in losses) + 64 * EPS * abs(total)
    rounds = (len(held), held[0], held[-1])
    return (
        *(Estimate.exact(count) for count in rounds),
        Estimate(total, error, losses[0].method, max(e.rigour for e in losses)),
    )


STATEMENTS = (
    Statement(
        id="fedgucci/F19",
        title="The last N global models are the anchors; the objective averages over them",
        kind=Kind.DEFINITION,
        source=Source(
            FEDGUCCI,
            "Eqs (11) and (12)",
            note="the window always contains the current global model, at which the client itself starts; with N = 1 "
            "the anchor is the start. For the squared loss and outputs linear along the segment the connectivity "
            "loss is (r^2 + r r_a + r_a^2)/3, which checks (12) in closed form",
        ),
        forms={
            Form.STATED: Claim(
                (sp.Min(t, N), sp.Max(1, t - N + 1), t, own + beta * (own + (cross + anchors) / size) / 3)
            )
        },
        constants=_constants,
        measure=_measure,
        symbols={
            N: "number of global models that are kept",
            t: "round, from 1",
            beta: "weight of the connectivity loss",
            size: "number of anchors, |W_t|",
            own: "mean of r^2, r the client's residuals",
            cross: "sum over the anchors of the mean of r r_a",
            anchors: "sum over the anchors of the mean of r_a^2",
        },
        left_formula=("|W_t|", "min W_t", "max W_t", "L(w) + beta mean_{tau in W_t} L_{connect}(w, w_tau)"),
        says_left="size, oldest and newest round of a store of N places filled round by round; and L + beta times the "
        "mean of the exact connectivity losses to the models in it",
        families=(ANCHOR_WINDOWS,),
        mutants=(
            scaled(sp.Rational(1_000_001, 1_000_000)),
            index_shifted(N, 1),
            index_shifted(t, -1),
            without(size),
            sign_flipped(cross, "the products of residuals"),
            power(beta, 2),
        ),
        uses=("fedgucci/F12",),
    ),
)
