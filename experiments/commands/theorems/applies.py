"""`ntkfl applies`: the statements that apply to the user's data and setup, and how sharp each one is there."""

from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import as_json, bad_input, if_stopped, reserved
from experiments.console.choices import chosen_problem, for_a_look, one_output, takes_options
from experiments.console.progress_bar import CaseProgress
from experiments.console.tables import PIPED_WIDTH, console

if TYPE_CHECKING:
    from bounds import Options
    from verification.applicability import Applicability

HEADINGS = {
    "yes": "apply, the sharpest first (left/right of one case; near 1 a bound says much)",
    "identity": "hold as identities (relative error)",
    "vacuous": "apply, and say nothing that can be used",
    "with other options": "would apply with other options",
    "no": "do not apply",
    "failed": "could not be evaluated",
}
SUMMARY = {
    "yes": "say something",
    "identity": "are identities",
    "vacuous": "say nothing",
    "with other options": "need other options",
    "no": "do not apply",
    "failed": "failed",
}


@takes_options
def applies(
    options: "Options",
    ids: Annotated[
        list[str] | None, typer.Argument(help="statements, papers or .py files of yours; all unless given")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="write what was found as JSON")] = None,
) -> None:
    """Say which statements apply to your data and setup: ntkfl applies --data mine.csv --width 2048 --eta-local 0.01

    A form of a statement is one version of its claim. Every form is evaluated on one case: the network drawn from the
    seed, or the run that trains it. Unless you choose otherwise, the run has 20 rounds, and the width is 1024, or
    smaller if the data have more than 1024 columns. If you give no --eta-local and the default step is unstable, half
    the largest stable step is taken. For a hypothesis that is not met, the command prints the value, the limit and, if
    one was found, an option with which it is met. Forms that are known to fail and forms that are not about data are
    left out, and so are statements about growth with the size or about networks of several widths. Exit status: 0, or 1
    if nothing applies; 2 bad input.
    """
    from bounds import catalogue, find
    from ntkfl.memory import TooLittleMemory
    from verification.applicability import Applies, applicable

    with bad_input():
        if options.data is None:
            raise ValueError("name your data: --data FILE, or digits, wine, breast_cancer, fashion-mnist, sphere")
        statements = find(*ids) if ids else tuple(catalogue().values())
        problem = one_output(chosen_problem(options, options.data))
        options = for_a_look(problem, options)
    with reserved(json_file, inputs=(options.data,)) as (write,):
        with bad_input(TooLittleMemory), if_stopped(lambda: "nothing is kept"), CaseProgress() as progress:
            answers, left_out = applicable(statements, options, progress)
        typer.echo("\n".join(_lines(answers, left_out, options)))
        if write:
            write(as_json([_record(answer) for answer in answers]))
    if not any(answer.applies is Applies.YES for answer in answers):
        raise typer.Exit(1)


def _record(answer: "Applicability") -> dict:
    from verification.json_values import strict_json

    columns = {name: getattr(answer, name) for name in ("form", "applies", "sharpness", "margins", "why")}
    return strict_json({"id": answer.statement.id} | columns)


def _lines(answers: "list[Applicability]", left_out: int, options: "Options") -> list[str]:
    from verification.applicability import Applies
    from verification.lines import entry
    from verification.verdict_page import ratio_text

    width = max(60, min(console().width, PIPED_WIDTH))
    label = max((len(applicable.statement.id) for applicable in answers), default=0)
    lines: list[str] = []
    for applies, group in groupby(answers, key=lambda answer: answer.applies):
        members = list(group)
        lines += ["", f"{len(members)} {HEADINGS[applies]}"]
        for answer in members:
            ratio = f"{ratio_text(answer.sharpness, 3):>9}" if answer.sharpness is not None else ""
            lines.append(f"  {answer.statement.id:<{label}} {answer.form.value:<9}{ratio}  {answer.statement.title}")
            lines += entry("", [answer.why], width) if answer.why else []
    counts = Counter(answer.applies for answer in answers)
    summary = ", ".join(f"{counts[Applies(applies)]} {words}" for applies, words in SUMMARY.items())
    setup = options.setup()
    chosen = f"width {setup.width}, {setup.rounds} rounds of {setup.local_steps} local steps of {setup.eta_local:g}"
    rest = f"{left_out} left out: known to fail, or not about one setup; {chosen}"
    return [*lines[1:], "", f"{len(answers)} forms looked at: {summary}", rest]
