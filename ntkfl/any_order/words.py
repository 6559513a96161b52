"""An any-order certificate as sentences, and as numbers for a file."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ntkfl.any_order.certificate import AnyOrderCertificate


def sentences(certificate: AnyOrderCertificate) -> tuple[str, str]:
    """The theorem's conclusion in two sentences, or the sentences of `not_certified` if nothing is proved."""
    if not certificate.certified:
        what = "residual |y - f|" if certificate.loss.name == "squares" else "distance of outputs to minimisers"
        return not_certified(certificate.needed_residual, float(certificate.residual.hi), what=what)
    return (
        f"CERTIFIED for any order: steps below {shown_down(certificate.step_limit)} bring the training loss to 0 from "
        "here on, in whatever order batches and clients come.",
        f"No later model is farther than {shown_up(2 * float(certificate.distance.hi))} from this one.",
    )


def not_certified(
    needed: float | None,
    residual: float,
    training: str = "any order",
    what: str = "residual |y - f|",
    remembers: bool = False,
) -> tuple[str, str]:
    """Two sentences: that nothing is proved, and with which residual the certificate would hold, if that is known."""
    first = (
        f"NOT CERTIFIED for {training}: this proof does not reach the network, and says nothing against training it."
    )
    if needed is not None:
        return first, f"A {what} of about {needed:.2g} would do, by an estimate; now it is {shown_up(residual)}."
    if remembers:
        return first, "It is not known which residual would do with this memory: see what is in the way."
    return first, "Even a residual a million times smaller would not do: see what is in the way."


def as_text(certificate: AnyOrderCertificate) -> str:
    """The sentences of the certificate, its numbers, and its conditions."""
    constant = certificate.weights.hidden.shape[1] > certificate.network.hidden.shape[1]
    numbers = {} if certificate.certified else {"in the way": certificate.why}
    squares = certificate.loss.name == "squares"
    numbers |= {
        "samples, neurons": f"{certificate.given.n}, {certificate.width}",
        **({} if squares else {"loss": certificate.loss.name}),
        certificate.residual_name: shown_up(float(certificate.residual.hi)),
        **({} if squares else {"samples it rests on": str(len(certificate.kept))}),
        "D, distance to the fit": shown_up(float(certificate.distance.hi)),
        "pairs held at kinks, |A|": str(len(certificate.held)),
        "margin off A": shown_down(certificate.margin),
    }
    if certificate.smallest_eigenvalue is not None:
        numbers["lambda_min(C C')"] = shown_down(float(certificate.smallest_eigenvalue.lo))
    if certificate.certified:
        limits = certificate.client_step_limits, certificate.universal_step_limits
        ranges = [" to ".join(dict.fromkeys((shown_down(limit.min()), shown_down(limit.max())))) for limit in limits]
        moved = f"{shown_up(certificate.prediction_radius)} |x|" + (", x with its constant feature" if constant else "")
        numbers |= {
            "steps allowed, by client": ranges[0],
            "whatever the patterns": ranges[1],
            "one sample at a time": shown_down(certificate.step_limit_for(1)),
            "all samples in one batch": shown_down(certificate.pooled_step_limit),
            "an output moves at most": moved,
        }
    if certificate.certified and certificate.problem.y.size > certificate.problem.n:
        # the difference of two outputs changes by at most twice the largest change of one output
        numbers["classes final that lead by"] = f"{shown_up(2 * certificate.prediction_radius)} |x|"
    lines = [*sentences(certificate), "", *(f"  {name:<28}{shown}" for name, shown in numbers.items())]
    return "\n".join(
        lines + ([f"  if {condition}" for condition in certificate.conditions()] if certificate.certified else [])
    )


def as_numbers(certificate: AnyOrderCertificate) -> dict[str, Any]:
    """All values in a form that JSON allows, `certified` first; a value that is unknown or infinite is None."""
    numbers = {
        "margin": certificate.margin,
        "distance": float(certificate.distance.hi),
        "distance_at_least": float(certificate.distance.lo),
        "residual": float(certificate.residual.hi),
        "smallest_eigenvalue": None
        if certificate.smallest_eigenvalue is None
        else float(certificate.smallest_eigenvalue.lo),
        "step_limit": certificate.step_limit,
        "pooled_step_limit": certificate.pooled_step_limit,
        "prediction_radius": certificate.prediction_radius,
    }
    limits = {
        "client_step_limits": certificate.client_step_limits,
        "universal_step_limits": certificate.universal_step_limits,
    }
    return (
        {"certified": certificate.certified, "why": certificate.why}
        | {name: _finite(value) for name, value in numbers.items()}
        | {name: [_finite(v) for v in values.tolist()] for name, values in limits.items()}
        | {"held": certificate.held.tolist(), "width": certificate.width, "n": certificate.given.n}
        | {"loss": certificate.loss.name, "kept": certificate.kept.tolist()}
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None


def _digits(value: float, rounding: str) -> str:
    """Six digits of a number, rounded in the direction that makes the claim weaker."""
    if not np.isfinite(value):
        return str(value)
    return f"{float(Context(prec=6, rounding=rounding).create_decimal(Decimal(float(value)))):.6g}"


shown_up, shown_down = partial(_digits, rounding=ROUND_CEILING), partial(_digits, rounding=ROUND_FLOOR)
