"""`ntkfl certify --search`: the smallest width or the largest step that certifies, beside what Theorem B.3 asks for."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from bounds.fl_ntk.theorem_requirements import Requirements
    from ntkfl.problem import Problem, Setup
    from verification.certification import Certified

SMALLEST_WIDTH, LARGEST_WIDTH = 16, 2**20
SMALLEST_STEP, LARGEST_STEP = 1e-6, 64.0
FIRST_WIDTH = 4096
SHARE = 1e-6  # of the squared residual: rounds are counted until it is reached
RATIO = 1.1  # between what certifies and what does not


def searched(
    problem: Problem, setup: Setup, after: int, every: int, *, steps: bool
) -> tuple[Setup, Certified, dict[str, Any]]:
    """The setup at the boundary, what certifies there, and the search as a record; prints it beside Theorem B.3.

    steps: look for the largest eta_local instead of the smallest width. Where nothing certifies, the easiest one tried.
    """
    from bounds.fl_ntk.theorem_requirements import requirements
    from verification.boundary import boundary
    from verification.certification import certify_after

    name = "eta_local" if steps else "width"
    seen: list[tuple[Setup, Certified]] = []

    def ask(value: float) -> Certified | None:
        chosen = replace(setup, eta_local=value) if steps else replace(setup, width=round(value))
        try:
            found = certify_after(problem, chosen, after, every)
        except FloatingPointError:
            typer.echo(f"{name} {getattr(chosen, name):g}: training overflowed", err=True)
            return None
        seen.append((chosen, found))
        said = "certified" if found.found.certified else f"needs {found.found.shortfall:.2g} times the radius"
        typer.echo(f"{name} {getattr(chosen, name):g}: {said}", err=True)
        return found

    edge = boundary(
        ask,
        lambda found: found is not None and found.found.certified,
        setup.eta_local if steps else min(setup.width, FIRST_WIDTH),
        harder=2.0 if steps else 0.5,
        easiest=SMALLEST_STEP if steps else LARGEST_WIDTH,
        hardest=LARGEST_STEP if steps else SMALLEST_WIDTH,
        ratio=RATIO,
    )
    if not seen:
        raise FloatingPointError("training overflowed at every value tried; take smaller steps")
    failed = edge.failed if steps or edge.failed is None else round(edge.failed)
    certified = [pair for pair in seen if pair[1].found.certified]
    chosen, best = min(certified or seen[-1:], key=lambda pair: -pair[0].eta_local if steps else pair[0].width)
    asked = requirements(problem, chosen.eta_global, SHARE)
    _show(name, chosen, best, failed, asked)
    record = {
        "search": {
            "of": name,
            "certifies": None if edge.value is None else getattr(chosen, name),
            "fails": failed,
            "theorem_b_3": asdict(asked),
        }
    }
    return chosen, best, record


def _show(name: str, chosen: Setup, best: Certified, failed: float | None, asked: Requirements) -> None:
    from numpy import log

    value = getattr(chosen, name)
    if best.found.certified:
        fails = "the end of the range" if failed is None else f"{failed:g} does not"
        adjective = "largest" if name == "eta_local" else "smallest"
        typer.echo(f"{adjective} {name} found that certifies: {value:g} ({fails})\n")
    else:
        typer.echo(f"no {name} that was tried certifies; shown is {value:g}\n")
    factor = best.found.residual_factor
    rounds = "undefined"
    if best.found.certified and factor < 1:
        rounds = f"{log(SHARE) / (2 * log(max(factor, 1e-300))):.3g}"
    rows: list[tuple[str, float, float, str]] = [("this certificate", chosen.width, chosen.eta_local, rounds)]
    step = asked.local_time / chosen.local_steps
    for label, width in (("stated, O-constant 1", asked.width_stated), ("as its proof needs", asked.width)):
        rows.append((f"Theorem B.3, {label}", width, step, f"{asked.rounds:.3g}"))
    typer.echo(f"  {'':<34}{'width':>12}{'eta_local':>14}{f'rounds to {SHARE:.0e} of |r|^2':>28}")
    for name, width, eta, count in rows:
        typer.echo(f"  {name:<34}{width:>12.3g}{eta:>14.3g}{count:>28}")
    typer.echo("")
