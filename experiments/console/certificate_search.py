"""The output of `ntkfl certify --search`: the boundary that was found, beside the requirement of Theorem B.3."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from experiments.console.interruptible import if_stopped

if TYPE_CHECKING:
    from bounds.fl_ntk.theorem_requirements import Requirements
    from ntkfl.problem import Problem, Setup
    from verification.certificate_search import Searched
    from verification.certification import Certified

SHARE = 1e-6  # share of the squared residual up to which rounds are counted


def search(
    problem: Problem, setup: Setup, after: int, every: int, *, steps: bool
) -> tuple[Setup, Certified, dict[str, Any]]:
    """The setup at the boundary, the certificate there, and the search as a record; printed beside Theorem B.3."""
    from bounds.fl_ntk.theorem_requirements import requirements
    from verification.certificate_search import searched

    name = "eta_local" if steps else "width"
    certified: list[float] = []

    def say(value: float, judged: Certified | None) -> None:
        if judged is None:
            said = "training overflowed"
        else:
            certified.extend([value] if judged.found.certified else [])
            said = "certified" if judged.found.certified else f"needs {judged.found.shortfall:.2g} times the radius"
        typer.echo(f"{name} {value:g}: {said}", err=True)

    def kept() -> str:
        if not certified:
            return f"no {name} that was tried certifies so far"
        best = max(certified) if steps else min(certified)
        return f"{name} {best:g} certifies; --{name.replace('_', '-')} {best:g} begins the search there"

    with if_stopped(kept):
        result = searched(problem, setup, after, every, steps=steps, progress=say)
    asked = requirements(problem, result.setup.eta_global, SHARE)
    _show(name, result, asked)
    value = getattr(result.setup, name) if result.certified.found.certified else None
    record = {"search": {"of": name, "certifies": value, "fails": result.fails, "theorem_b_3": asdict(asked)}}
    return result.setup, result.certified, record


def _show(name: str, searched: Searched, asked: Requirements) -> None:
    from numpy import log

    chosen, best, failed = searched.setup, searched.certified, searched.fails
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
