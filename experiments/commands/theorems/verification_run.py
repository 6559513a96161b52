"""`ntkfl verify`: checks statements, and reports the verdicts with the worst first.

A form of a statement is one version of its claim, such as the version that a paper prints. A verdict is about one form.
"""

import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.console.blocks import BAD_INPUT, REPORTED, as_json, bad_input, if_stopped, reserved, stopped
from experiments.console.choices import OnlyForm, OnlyPaper, chosen_problem, one_output, takes_options, with_stable_step
from experiments.console.progress_bar import CaseProgress
from experiments.console.tables import PIPED_WIDTH, as_lines, console, print_lines
from ntkfl.messages import require_size

if TYPE_CHECKING:
    from bounds import Form, Options, Statement
    from bounds.case import AnyFamily
    from ntkfl.problem import Problem
    from verification.planning import Plan
    from verification.verdict import Verdict

DIFFERS, REFUTES_OPEN = 1, 3


@takes_options
def verify(
    options: "Options",
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            help="statements or papers, as `ntkfl list` names them, or .py files of yours; all unless given"
        ),
    ] = None,
    paper: OnlyPaper = None,
    form: OnlyForm = None,
    trials: Annotated[int | None, "number of cases of each family (1 to 300, by the cost of a case)"] = None,
    until_decided: Annotated[
        bool | None,
        typer.Option(
            "--until-decided/--thorough",
            help="run a sixteenth of the cases first, and more only if these do not decide; or run all cases "
            "(until decided if all statements are checked, else thorough)",
        ),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the verdicts as JSON to this file")] = None,
    markdown: Annotated[Path | None, "write a Markdown report to this file"] = None,
    device: Annotated[str | None, "compute the left sides with the training engine: cpu, cuda or cuda:NUMBER"] = None,
    processes: Annotated[
        int | None, "processes that share the work (as many as cores; 1 where there is little work)"
    ] = None,
    meta: Annotated[bool, "test the verifier itself: wrong formulas, planted faults, and true statements"] = False,
    library: Annotated[bool, "with --meta: only whether the statements notice faults planted in the library"] = False,
    strict: Annotated[bool, "exit status 1 unless every chosen form was tested and holds"] = False,
    attack: Annotated[
        bool,
        typer.Option(
            "--attack/--no-attack",
            help="search ten seconds for a counterexample to each form of your own that held in its cases",
        ),
    ] = True,
    symbolic: Annotated[bool, "prove the algebraic steps of the proofs instead of running cases"] = False,
    auto_step: bool = False,
) -> None:
    """Check statements on real and synthetic data, or on data of your own.

    With --data the outcome is about your data, and a remark says if a form is known to fail on other cases. --eta-local
    auto takes the largest step that the hypotheses allow.

    If you give --data and whole papers, or no ids, only forms about data are checked, each with a step of its own
    unless you give one. Forms whose first case does not meet the hypotheses do not run; the command names them before
    the other forms run. A case that cannot be computed, for example because its run overflows, is named and leaves the
    outcome unresolved.

    If a form of a statement of your own held in all its cases, it is then attacked, which means that a counterexample
    is searched for. The search takes ten seconds of processor time, and --no-attack leaves it out. A confirmed
    counterexample makes the form violated, "broken by search"; `ntkfl attack` writes the counterexample to a file.

    Exit status: 0 the verdicts are as recorded; 1 a verdict differs from the recorded outcome (with --data: a form
    recorded to hold is violated, or nothing could be tested; with --strict: some form was not tested or does not hold);
    2 bad input, or some forms were not run because PyTorch is missing while the others are as recorded; 3 a form that
    is recorded as open is violated; 130 stopped by Ctrl-C.
    """
    with bad_input():
        require_size("trials", trials, optional=True)
        require_size("processes", processes, optional=True)
        if device is not None:
            from ntkfl.training.engine.devices import torch_device

            torch_device(device)  # raises an error for a device that this machine does not have
        everything = not (ids or meta or trials is not None)
        until_decided = everything if until_decided is None else until_decided
        if until_decided and trials is not None:
            raise ValueError(f"--trials {trials} says how many cases are drawn: leave out --until-decided")
        options = replace(options, trials=trials, device=device, until_decided=until_decided)
        if not (ids or paper or meta or symbolic or device) and processes != 1:
            _start_early()
        from bounds.listing import papers

        statements, forms = _wanted(ids, paper, form)
        files = [word.partition("::")[0] for word in ids or ()]
        if library and not meta:
            raise ValueError("--library is a part of --meta: give both")
        if meta and markdown is not None and not library:
            raise ValueError("--meta writes no Markdown; --json keeps what it finds")
        if meta and device is not None:
            raise ValueError("--meta tests the verifier on the simulator's runs; leave --device out")
        if processes is not None and (meta or symbolic or device is not None):
            raise ValueError("--processes is for checking statements: leave out --meta, --symbolic and --device")
        given = (json_file, markdown, options.data, trials, form, device)
        if symbolic and (meta or any(x is not None for x in given)):
            raise ValueError("--symbolic runs no case: it goes with ids alone, not with --meta, --data or files")
        whole = options.data is not None and not (meta or symbolic or set(ids or ()) - set(papers()))
        if whole and processes not in (None, 1):
            raise ValueError(
                f"--processes is {processes}; whole papers on your data take one, since forms with steps of "
                "their own share what is computed of the data: leave it out, or name statements"
            )
    with reserved(json_file, markdown, inputs=(options.data, *files)) as (write_json, write_markdown):
        with bad_input():
            if whole:
                own_step = auto_step or options.eta_local is None
                options = with_stable_step(one_output(chosen_problem(options, str(options.data))), options)
            elif auto_step:
                if meta or symbolic:
                    raise ValueError("--eta-local auto is for checking statements: leave out --meta and --symbolic")
                options = _with_passing_step(statements, forms, options)
            _check_data(statements, forms, options)
        from ntkfl.interruption import held

        if symbolic:
            from experiments.console.meta_run import prove_steps

            return prove_steps({statement.id for statement in statements} if ids or paper else None)
        if meta:
            from experiments.console.meta_run import check_verifier

            pages = {"write_json": write_json, "write_markdown": write_markdown}
            with if_stopped(lambda: REPORTED), held():
                return check_verifier(statements, forms, options, whole=not (ids or paper), library=library, **pages)
        # an interrupt takes effect while cases are run, and is held back otherwise
        with if_stopped(lambda: REPORTED), held():
            if whole:
                verdicts, complete = _run_on_data(statements, forms, options, own_step)
            else:
                verdicts, complete = _run(statements, forms, options, processes, attack)
            _print(verdicts, strict, pages=len(statements) == 1)
            if write_json:
                write_json(as_json(_record(verdicts, options, complete)))
            if write_markdown:
                from verification.verdict_list import as_markdown

                write_markdown(as_markdown(verdicts))
    if not complete:
        raise stopped(REPORTED)
    not_run = any(verdict.not_run for verdict in verdicts)
    untested = bool(verdicts) and not not_run and all(verdict.nothing_tested for verdict in verdicts)
    differing = any(verdict.contradicts_record for verdict in verdicts)
    if differing or untested or (strict and not all(verdict.tested_and_holds for verdict in verdicts)):
        raise typer.Exit(DIFFERS)
    if any(verdict.refutes_open for verdict in verdicts):
        raise typer.Exit(REFUTES_OPEN)
    if not_run:
        raise typer.Exit(BAD_INPUT)


def _with_passing_step(statements: "list[Statement]", forms: "list[Form]", options: "Options") -> "Options":
    """Print the largest step that the hypotheses allow, and return the options with this step."""
    from verification.judging.way_out import passing_step

    step, name = passing_step(statements, forms, options)
    typer.echo(f"eta_local {step:g}: the largest, to three digits, that {name} allows", err=True)
    return replace(options, eta_local=step)


def _start_early() -> None:
    """Start the parent of the worker processes early, so that it imports while this process does other work.

    The parent is started only if there is more than one core.
    """
    from verification.cores import cores
    from verification.processes import start_server

    if cores() > 1:
        start_server()


def _wanted(ids: list[str] | None, paper: str | None, form: str | None) -> "tuple[list[Statement], list[Form]]":
    """The chosen statements and forms.

    Raises:
        KeyError: an unknown id. ValueError: a paper or form that no statement has.
    """
    from bounds import Form, catalogue, find
    from bounds.listing import narrowed

    statements = list(narrowed(find(*ids) if ids else catalogue().values(), paper))
    forms = list(Form) if form is None else [Form(form)]
    if not any(wanted in statement.forms for statement in statements for wanted in forms):
        names = ", ".join(statement.id for statement in statements)
        has = ", ".join(sorted({form.value for statement in statements for form in statement.forms}))
        raise ValueError(f"{names} has no form {form!r}; it has: {has}")
    return statements, forms


def _check_data(statements: "list[Statement]", forms: "list[Form]", options: "Options") -> None:
    """Load the data once, so that faults of the data, or of the steps on these data, are reported before the work.

    Raises:
        ValueError, OSError: the data or their partition cannot be used.
        TooLittleMemory: a single case is too large for this machine.
    """
    chosen = (options.n, options.clients, options.partition, options.eta_local, options.eta_global, options.local_steps)
    if any(size is not None for size in (options.width, options.rounds, options.local_steps, options.data, options.n)):
        from verification.judging.case_memory import require_case

        for family in _families(statements, forms, options):
            require_case(family, options.seed)
    if options.data is None and all(choice is None for choice in chosen):
        return
    from bounds.federated_run import FederatedFamily, federated_families
    from ntkfl.exact_dynamics import warn_if_unstable

    if options.data is not None:
        _warn_of_rows(one_output(chosen_problem(options, options.data)))
    for family in federated_families(options):
        family.problem(options.seed)
    for family in _families(statements, forms, options):
        if isinstance(family, FederatedFamily):
            warn_if_unstable(family.problem(options.seed), family.setup)


def _families(statements: "list[Statement]", forms: "list[Form]", options: "Options") -> "list[AnyFamily]":
    from verification.judging.families import families

    used = (families(s, form, options)[0] for s in statements for form in forms if form in s.forms)
    return list(dict.fromkeys(family for group in used for family in group))


def _warn_of_rows(problem: "Problem") -> None:
    from ntkfl.problem import UNIT_TOLERANCE

    if problem.unit_deviation > UNIT_TOLERANCE:
        warnings.warn(
            f"the rows of {problem.name} are not of unit norm, they are off by up to {problem.unit_deviation:.3g}; "
            "statements that need unit rows reject them all. --unit divides each row by its norm",
            stacklevel=2,
        )


def _run(
    statements: "list[Statement]", forms: "list[Form]", options: "Options", processes: int | None, attack: bool
) -> "tuple[list[Verdict], bool]":
    """Run all cases; returns the verdicts, and whether all chosen forms were checked on all their cases."""
    from ntkfl.exact_dynamics import UnstableSteps
    from verification.processes import verify_in_processes
    from verification.search import attack_held

    wanted = sum(form in statement.forms for statement in statements for form in forms)
    # Warnings about unstable steps are hidden. A warning about the user's setup was already shown. Cases that are
    # stored with a statement exceed the limit of stable steps on purpose.
    with warnings.catch_warnings(action="ignore", category=UnstableSteps):
        with CaseProgress() as progress:
            verdicts = verify_in_processes(statements, options, forms, progress, processes)
        complete = progress.complete and len(verdicts) == wanted
        if attack and complete:
            verdicts = attack_held(verdicts, progress=lambda sentence: typer.echo(sentence, err=True))
    return verdicts, complete and all(verdict.complete for verdict in verdicts)


def _run_on_data(
    statements: "list[Statement]", forms: "list[Form]", options: "Options", own_step: bool
) -> "tuple[list[Verdict], bool]":
    """As `_run`, but only for the forms about the user's data.

    Forms that cannot be tested are named before the cases are run.
    """
    from ntkfl.exact_dynamics import UnstableSteps
    from verification.planning import plans_on_data, verify_planned

    with warnings.catch_warnings(action="ignore", category=UnstableSteps):
        with CaseProgress() as progress:
            plans, others = plans_on_data(statements, forms, options, own_step, progress)
        for line in _plan_lines(plans, options.eta_local, others):
            typer.echo(line, err=True)
        with CaseProgress() as progress:
            verdicts = verify_planned(plans, progress)
    ran = progress.complete or all(plan.unmet is not None for plan in plans)
    return verdicts, ran and len(verdicts) == len(plans) and all(v.complete for v in verdicts)


def _plan_lines(plans: "list[Plan]", step: float | None, others: int) -> list[str]:
    """Lines with the number of forms that run, and how many of these have a step of their own.

    Below, the forms that do not run are listed by the hypothesis that is not met.
    """
    run = [plan for plan in plans if plan.unmet is None]
    steps = [plan.options.eta_local for plan in run if plan.options.eta_local not in (None, step)]
    own = (
        f", {len(steps)} with a smaller eta_local of their own, from {min(steps):g} to {max(steps):g}" if steps else ""
    )
    lines = [f"forms checked on your data: {len(run)}{own}; {others} are not about data"]
    missed: dict[str, list[str]] = {}
    for plan in plans:
        if plan.unmet is not None:
            missed.setdefault(plan.unmet.name, []).append(f"{plan.statement.id} ({plan.form.value})")
    return lines + [f"not run, the first case misses {name}: {', '.join(ids)}" for name, ids in missed.items()]


def _print(verdicts: "list[Verdict]", strict: bool, pages: bool) -> None:
    """Print the verdicts, then the totals and the untested forms.

    With `pages` each verdict has a page. Otherwise all verdicts are in a table, below the verdicts that differ from the
    record.
    """
    from verification.verdict_list import news_lines, table, totals, untested_lines, worst_first
    from verification.verdict_page import as_text

    if pages:
        width = max(60, min(console().width, PIPED_WIDTH))
        for verdict in worst_first(verdicts):
            typer.echo(as_text(verdict, width=width) + "\n")
    elif verdicts:
        if news := news_lines(verdicts):
            typer.echo("\n".join(news) + "\n")
        typer.echo(as_lines(table(verdicts)) + "\n")
    print_lines(totals(verdicts), *untested_lines(verdicts))
    if strict and (others := [verdict for verdict in verdicts if not verdict.tested_and_holds]):
        names = ", ".join(f"{verdict.id} ({verdict.form.value}) {verdict.word}" for verdict in others)
        typer.echo(f"--strict: {len(others)} of {len(verdicts)} forms were not tested, or not found to hold: {names}")


def _record(verdicts: "list[Verdict]", options: "Options", complete: bool) -> dict[str, Any]:
    from verification import verdict_list
    from verification.judging.check import data_origin, origin

    run: dict[str, Any] = (
        origin(options.device, first_seed=options.seed)
        | data_origin(options)
        | {
            "options": asdict(options),
            "complete": complete and not any(verdict.error for verdict in verdicts),
        }
    )
    return verdict_list.as_json(verdicts, run)
