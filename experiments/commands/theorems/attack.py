"""`ntkfl attack`: search for counterexamples, and replay one from its file.

A form of a statement is one version of its claim, such as the version that a paper prints.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import bad_input, if_stopped, reserved, stopped
from experiments.console.choices import OnlyForm
from experiments.console.durations import duration
from ntkfl.messages import number_of, require_number, require_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from bounds import Form, Statement
    from verification.search import Attack

FINDING, UNTESTED = 1, 4
NIGHTLY = tuple(f"fl-ntk/{name}" for name in "B.5 B.6 B.7 B.9-15 B.10 B.11 Eq16 C.6 X.1 X.2 X.3".split())
EXAMPLES, SECONDS = 400, 60.0
# the seconds that --nightly divides equally among its forms, and a number of cases that no search reaches
HOUR, UNLIMITED = 3600.0, 10**6


def attack(
    ids: Annotated[
        list[str] | None, typer.Argument(help="statements, as `ntkfl list` names them, or .py files of yours")
    ] = None,
    form: OnlyForm = None,
    examples: Annotated[int, "cases tried for each form, before a counterexample is made small"] = EXAMPLES,
    budget: Annotated[
        float,
        typer.Option(
            parser=duration,
            metavar="TIME",
            help="processor time for each form, before a counterexample is made small: 60, 60s, 5m or 1h",
        ),
    ] = SECONDS,
    seed: Annotated[int, "seed of the search; the same seed gives the same cases"] = 0,
    nightly: Annotated[bool, "search for an hour, in the forms named above; vary --seed"] = False,
    folder: Annotated[Path, "where files that replay counterexamples are written"] = Path(),
    replay: Annotated[Path | None, "judge the counterexample in this file again"] = None,
) -> None:
    """Search for counterexamples to statements. A counterexample is made small, confirmed, and written to a file.

    By default the search for each form takes at most one minute of processor time. With most seeds this suffices to
    find the misprints of the papers. With --nightly the forms of B.5-B.7, B.9-15 (one statement), B.10, B.11, Eq16, C.6
    and X.1-X.3, which are all recorded to hold, share an hour equally. To look at other cases every night, give the
    day's number as --seed. Progress goes to stderr.

    Exit status: 0 no counterexample was found, or only to forms that are recorded as violated; 1 a counterexample to
    another form was found, or a replayed one is not confirmed; 2 bad input; 4 no case of a form met its hypotheses, so
    that nothing was tested; 130 stopped by Ctrl-C (what was found until then is printed and kept).
    """
    if replay is not None:
        _replay(replay, ids)
        return
    with bad_input():
        if nightly:
            if ids or (examples, budget) != (EXAMPLES, SECONDS):
                raise ValueError(
                    "--nightly has statements and a budget of its own; leave out ids, --examples, --budget"
                )
            ids, examples = list(NIGHTLY), UNLIMITED
        statements = _wanted(ids, form, examples, budget, seed)
        budget = HOUR / len(statements) if nightly else budget
    from bounds.listing import failure
    from ntkfl.extensions import ExtensionError
    from ntkfl.interruption import held

    findings = untested = tried = admitted = 0
    seconds = 0.0
    for number, (statement, chosen) in enumerate(statements):
        whole = f"{number} of {len(statements)} forms were searched to the end; what was found is printed above"
        path, refused = folder / file_name(statement, chosen), bad_input(OSError, ExtensionError)
        with if_stopped(lambda: whole), held(), refused, reserved(path) as (write,):  # noqa: B023
            from verification.search import attack as search, written

            say = _stages(f"{statement.id} {chosen.value}")
            try:
                done = search(statement, chosen, examples=examples, seconds=budget, seed=seed, progress=say)
            except Exception as error:
                raise ExtensionError(f"{statement.id} {failure(error, statement)}") from error
            if done.counterexample is not None and write is not None:
                write(written(statement, chosen, done.counterexample))
            typer.echo("\n".join(_lines(done, path)) + "\n")
        if done.interrupted:
            raise stopped(whole)
        findings, tried, admitted = findings + done.contradicts_record, tried + done.tried, admitted + done.admitted
        untested += done.untested is not None
        seconds += done.seconds
    if len(statements) > 1:
        against = f"{findings} of them violated against the record" if findings else "none violated against the record"
        against += f"; {untested} untested" if untested else ""
        cases = f"{number_of(tried, 'case')} tried, {admitted} admitted in {seconds:.0f} s"
        typer.echo(f"{len(statements)} forms, {cases}: {against}")
    if findings or untested:
        raise typer.Exit(FINDING if findings else UNTESTED)


def _stages(name: str) -> "Callable[[str], None]":
    """The function that prints each stage of a search on stderr."""
    return lambda stage: typer.echo(f"{name}: {stage}", err=True)


def file_name(statement: "Statement", form: "Form") -> str:
    """The name of a counterexample's file.

    For fl-ntk/B.12, stated, it is counterexample_fl_ntk_b_12_stated.json.
    """
    from bounds.papers import slug

    return f"counterexample_{slug(statement.id)}_{form.value}.json"


def _wanted(
    ids: list[str] | None, form: str | None, examples: int, budget: float, seed: int
) -> "list[tuple[Statement, Form]]":
    """The chosen forms, each with its statement.

    Raises:
        KeyError: an unknown id. ValueError: no id, a form that a statement does not have, an invalid budget.
    """
    from bounds import Form, find

    if not ids:
        raise ValueError("no statement is named; name one or more, like fl-ntk/B.12, or --replay FILE")
    for name, value in (("examples", examples), ("budget", budget)):
        require_number(name, value, "be positive")
    require_size("seed", seed, least=0)
    pairs = []
    for statement in find(*ids):
        forms = list(statement.forms) if form is None else [Form(form)]
        if forms[0] not in statement.forms:
            has = ", ".join(form.value for form in statement.forms)
            raise ValueError(f"{statement.id} has no form {form!r}; it has: {has}")
        pairs += [(statement, form) for form in forms]
    return pairs


def _lines(done: "Attack", path: Path) -> list[str]:
    """The lines about a search: the cases that were tried, the counterexample, and its file."""
    from bounds.listing import PART, word_for
    from verification.plain_text import claim_lines
    from verification.search.plain_case import in_words

    statement, form = done.statement, done.form
    recorded = f"recorded: {statement.forms[form].recorded.value}"
    if done.counterexample is not None:
        verdict = "COUNTEREXAMPLE" + (", a finding" if done.contradicts_record else "")
    elif done.interrupted:
        verdict = "nothing found until it was interrupted"
    elif done.untested is not None:
        verdict = f"untested: {done.untested}"
    else:
        verdict = "nothing found" + (", though one is known: try a larger budget" if done.missed else "")
    rejected = ", ".join(f"{name} {count}" for name, count in done.rejected.items()) or "no hypothesis"
    lines = [
        f"{statement.id} {form.value}: {verdict} ({recorded})",
        f"  statement  {statement.title}",
        *(f"  claim      {line}" for line in claim_lines(statement, form)),
        f"  left is    {statement.says_left}",
        f"  tried      {number_of(done.tried, 'case')}, {done.admitted} admitted"
        + (f"; rejected by {rejected}" if rejected else ""),
        f"  families   {'; '.join(done.families)}",
        f"  time       {done.seconds:.1f} s",
    ]
    if done.failed:
        lines.append(f"  no value   {number_of(sum(done.failed.values()), 'case')}: {next(iter(done.failed))}")
    if done.counterexample is None and done.best is not None:
        lines.append(f"  nearest    left {done.best.left}, right {done.best.right}, ratio {done.best.tightness:.4g}")
    lines += [f"  not counted: a violation that did not stand: {reason}" for reason in done.unconfirmed]
    if (counterexample := done.counterexample) is not None:
        file, part, _ = word_for(statement).partition(PART)
        own = f"{file} " if part else ""
        searched = f"{number_of(counterexample.cases_searched, 'case')} and {counterexample.seconds:.1f} s"
        how = f"{counterexample.found_by}, after {searched}"
        lines += [f"  found by   {how}", *(f"  case       {line}" for line in in_words(counterexample.case))]
        lines += [
            f"  left       {counterexample.comparison.left}",
            f"  right      {counterexample.comparison.right}",
            f"  ratio      {counterexample.comparison.tightness:.6g}",
            f"  {counterexample.confirmation.standing:<9}  {counterexample.confirmation.how}",
            f"  replay     ntkfl attack {own}--replay {path}",
        ]
    return lines


def _replay(path: Path, ids: list[str] | None) -> None:
    """Judge the case in a file again, and end with exit status 1 if its violation is not confirmed.

    Raises:
        typer.Exit: status 1 as above; status 2 if the file cannot be read or was changed.
    """
    from bounds import load
    from ntkfl.extensions import is_file
    from verification.search import read, rejudge
    from verification.search.plain_case import in_words

    with bad_input():
        if surplus := [word for word in ids or () if not is_file(word)]:
            raise ValueError(f"--replay takes its statement from the file; leave out {', '.join(surplus)}")
        for file in ids or ():
            load(file)
        content = read(path.read_text(encoding="utf-8"))
        try:
            again = rejudge(content)
        except (AttributeError, LookupError, TypeError) as error:
            raise ValueError(f"the case in the file is none of {content.statement.id}: {error}") from None
    stands = "VIOLATED, as the file says" if again.stands else "the violation does not stand"
    typer.echo(f"{content.statement.id} {content.form.value}: {stands}")
    for line in in_words(content.case):
        typer.echo(f"  case       {line}")
    if (comparison := again.result.comparison) is not None:
        same = "as in the file, bit for bit" if again.same_sides else "other values than the file's"
        typer.echo(f"  left       {comparison.left}\n  right      {comparison.right}   ({same})")
        typer.echo(f"  ratio      {comparison.tightness:.6g}")
    typer.echo(f"  {again.standing:<9}  {again.how}" if again.stands else f"  why        {again.how}")
    if not again.stands:
        raise typer.Exit(FINDING)
