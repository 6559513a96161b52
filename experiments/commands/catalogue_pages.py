"""`ntkfl list` and `ntkfl show`: the statements, without running anything."""

import shutil
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.commands.bad_input import bad_input

if TYPE_CHECKING:
    from bounds.statement import Form, Statement

WIDEST = 100


def list_statements(
    paper: Annotated[str | None, typer.Option(help="only the statements of this paper, such as fl-ntk")] = None,
) -> None:
    """List the statements: id, kind, title, and each form with its recorded outcome."""
    from bounds.listing import PAPERS, catalogue

    with bad_input():
        if paper is not None and paper not in PAPERS:
            raise ValueError(f"there is no paper {paper!r}; it is one of {', '.join(PAPERS)}")
    statements = [s for s in catalogue().values() if paper is None or s.id.startswith(f"{paper}/")]
    id_width = max(len(statement.id) for statement in statements) + 2
    kind_width = max(len(statement.kind) for statement in statements) + 2
    for statement in statements:
        typer.echo(f"{statement.id:<{id_width}}{statement.kind.value:<{kind_width}}{statement.title}")
        typer.echo(
            " " * (id_width) + ", ".join(f"{form.value} {_recorded(statement, form)}" for form in statement.forms)
        )
    forms = sum(len(statement.forms) for statement in statements)
    typer.echo(f"{len(statements)} statements in {forms} forms, each with its recorded outcome")


def show(
    identifier: Annotated[
        str, typer.Argument(metavar="ID", help="a statement, as `ntkfl list` names it, or a paper for its conventions")
    ],
    latex: Annotated[bool, typer.Option("--latex", help="the formulas as LaTeX too")] = False,
) -> None:
    """Show one statement: claim, hypotheses, formulas, source, how each side is measured, mutants, symbols."""
    from bounds.listing import PAPERS, get
    from verification.page import LABEL, entry, symbols, wrapped
    from verification.plain_text import claim_lines, symbol_text

    if identifier in PAPERS:
        return typer.echo("\n".join(_conventions(identifier)))
    with bad_input():
        statement = get(identifier)
    width = max(60, min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST))
    hypotheses = {h.name: h.says for h in statement.hypotheses}
    lines = wrapped(f"{statement.id}  {statement.title}", width)
    lines += entry("kind", [statement.kind.value], width)
    lines += entry("source", [str(statement.source), statement.source.note], width)
    lines += entry("needs", [f"{name}: {says}" for name, says in hypotheses.items()] or ["no hypothesis"], width)
    for form, formula in statement.forms.items():
        nature = [f"differs from what holds by: {formula.nature.value}"] if formula.nature else []
        more = [f"needs also {h.name}: {h.says}" for h in statement.form_hypotheses.get(form, ())]
        lines += ["", *entry(form.value, claim_lines(statement, form), width)]
        if latex:  # to be copied, so not wrapped
            lines += [" " * (LABEL + 1) + part for part in formula.latex().split(r" ;\quad ")]
        lines += entry("", [*more, formula.note], width)
        lines += entry("", [f"recorded: {statement.recorded[form].value}", *nature], width)
        if form in statement.witness:
            lines += entry("", ["a stored case shows the violation"], width)
    mutants = ", ".join(mutant.name for mutant in statement.mutants)
    meanings = [f"{', '.join(map(symbol_text, group))}: {meaning}" for group, meaning in symbols(statement)]
    lines += ["", *entry("left is", [statement.says_left], width)]
    lines += entry("right is", ["the formula above, in ball arithmetic, from quantities of the case"], width)
    lines += entry("mutants", [f"{mutants} (of the {statement.mutated_form.value} form)" if mutants else "none"], width)
    lines += entry("necessity", [f"a stored case shows that {name} is needed" for name in statement.necessity], width)
    lines += entry("uses", [", ".join(statement.uses)], width)
    lines += ["", *entry("symbols", meanings, width)]
    lines += entry("check it", [f"ntkfl verify {statement.id}"], width)
    typer.echo("\n".join(lines))


def _conventions(paper: str) -> list[str]:
    from bounds.listing import conventions
    from verification.page import entry

    lines = [f"{paper}: conventions"]
    for convention in conventions(paper):
        lines += ["", convention.about, *entry("used", [convention.used], WIDEST)]
        lines += entry("printed", [convention.printed] if convention.printed else [], WIDEST)
    return lines


def _recorded(statement: "Statement", form: "Form") -> str:
    nature = statement.forms[form].nature
    return statement.recorded[form].value + (f" ({nature.value})" if nature else "")
