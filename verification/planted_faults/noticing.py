"""Which planted faults the statements notice, and the page of the results.

A planted fault is an error that is put into a function of the library on purpose.

A statement notices a fault if a verdict on it differs from the recorded outcome.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

from rich.table import Table
from rich.text import Text

from bounds import Form, Options, Outcome, get
from ntkfl.algorithm1.reference import PlainRun
from ntkfl.problem import Problem, Setup, Weights
from verification.engine import Progress, verify_all
from verification.facts import Fact
from verification.planted_faults.fault import PlantedFault
from verification.planted_faults.planting import planted
from verification.sentences import What
from verification.tables import markdown_row, plain_table
from verification.verdict import Verdict

Asked = tuple[str, int, int | None]  # a statement's id, the number of its cases, and their width
COLUMNS = ("function", "fault", "noticed by", "verdict", "how")

HEAD = """# Faults planted in the library

A faulty version takes the place of one public function, or of a part of one, at a time. Then a statement that uses the
function is checked. Each row names the statement whose verdict changes. For an equality the last column has the value
that was measured with the fault, against the right value. `ntkfl verify --meta --library --markdown FILE` writes this
page.
"""


@dataclass(frozen=True)
class Noticed:
    """The result of one fault.

    Args:
        name: name of the fault.
        function: the function in which it was planted.
        id: the id of the statement that notices the fault; None if the fault is not noticed.
        form: the first form of the statement that notices the fault; None if no form does.
        recorded: outcome of that form without the fault.
        outcome: outcome of that form with the fault.
        how: the statement's numbers with the fault.
    """

    name: str
    function: str
    id: str | None = None
    form: Form | None = None
    recorded: str = ""
    outcome: str = ""
    how: str = ""


def noticed(mutants: Iterable[PlantedFault], seed: int = 0, progress: Progress | None = None) -> list[Noticed]:
    """Plant each fault in turn, and find whether the statement that uses the faulty function notices the fault.

    The forms of the statement are judged in this process on few cases, once without the fault and once with it. With so
    few cases a form's verdict may differ from the recorded outcome even without a fault; such a form counts as noticing
    nothing. If interrupted (Ctrl-C), the function returns what was found so far.

    Args:
        mutants: the faults.
        seed: seed of the cases; default 0.
        progress: a function that is called with the faulty function, the number of faults done and the number of all
            faults; default none.
    """
    chosen, sound, noticed_faults = list(mutants), dict[Asked, set[Form]](), list[Noticed]()
    try:
        with planted("ntkfl.algorithm1.reference:plain_run", _remembering):
            for fault in chosen:
                noticed_faults.append(_first(fault, seed, sound))
                if progress is not None:
                    progress(fault.function, len(noticed_faults), len(chosen))
    except KeyboardInterrupt:
        pass
    return noticed_faults


def _remembering(right: Callable[..., PlainRun]) -> Callable[..., PlainRun]:
    """A function that computes plain runs and remembers their results.

    Most faults are confirmed by the same plain runs in extended precision. Results are remembered by the inputs of
    `plain_run`. A fault that is planted in `plain_run` itself changes its arguments before the remembering function
    gets them. So the results of the faulty `plain_run` are remembered apart from the right results. No other fault
    changes a plain run, because a plain run shares no code with other runs.
    """
    known: dict[tuple, PlainRun] = {}

    @wraps(right)
    def remembered(problem: Problem, setup: Setup, weights: Weights, arithmetic: Any, **named: Any) -> PlainRun:
        arrays = (problem.x, problem.y, problem.owner, *weights)
        options = tuple(sorted((name, str(value)) for name, value in named.items()))
        key = (*((array.shape, array.tobytes()) for array in arrays), setup, arithmetic.name, options)
        if key not in known:
            known[key] = right(problem, setup, weights, arithmetic, **named)
        return known[key]

    return remembered


def _first(fault: PlantedFault, seed: int, sound: dict[Asked, set[Form]]) -> Noticed:
    asked = fault.noticed_by, fault.trials, fault.width
    if asked not in sound:
        sound[asked] = {verdict.form for verdict in _verdicts(*asked, seed) if verdict.as_recorded}
    with planted(fault.function, fault.fault):
        verdicts = _verdicts(*asked, seed)
    for verdict in verdicts:
        if verdict.form in sound[asked] and not verdict.as_recorded:
            outcomes = verdict.recorded.value, verdict.outcome.value, _how(verdict)
            return Noticed(fault.name, fault.function, fault.noticed_by, verdict.form, *outcomes)
    return Noticed(fault.name, fault.function)


def _verdicts(identifier: str, trials: int, width: int | None, seed: int) -> list[Verdict]:
    """The verdicts on all forms, from few cases and the stored cases, without mutants."""
    statement = replace(get(identifier), mutants=(), necessity={})
    # a faulty number may be above any limit at which a warning is given
    with warnings.catch_warnings(action="ignore"):
        return verify_all([statement], Options(trials=trials, width=width, seed=seed), threads=0)


def _how(verdict: Verdict) -> str:
    if verdict.error is not None:
        return verdict.error
    if verdict.outcome is Outcome.UNRESOLVED and verdict.confirmation is not None:
        return str(Fact(What.DOUBTED, {"how": verdict.confirmation.how}))
    if verdict.lhs is not None and verdict.rhs is not None and verdict.trials:
        return f"{verdict.lhs.value:.6g} against {verdict.rhs.value:.6g}"
    return "; ".join(map(str, verdict.notes[:1])) or f"{verdict.trials} cases admitted"


def library_table(faults: Sequence[Noticed]) -> Table:
    """A table with one row for each fault.

    Args:
        faults: the planted faults, each with what noticed it.
    """
    table = plain_table(COLUMNS, wrapped=COLUMNS, gap=1)
    for fault in faults:
        table.add_row(*(Text(cell, "" if fault.id else "bold red") for cell in _cells(fault)))
    return table


def library_totals(faults: Sequence[Noticed]) -> str:
    """One line that says how many faults changed a verdict.

    Args:
        faults: the planted faults, each with what noticed it.
    """
    return (
        f"faults planted in the library: {sum(fault.id is not None for fault in faults)}/{len(faults)} change a verdict"
    )


def unnoticed(faults: Sequence[Noticed]) -> list[str]:
    """One line for each fault that no statement noticed.

    Args:
        faults: the planted faults, each with what noticed it.
    """
    return [f"{fault.function}: no statement notices the fault {fault.name!r}" for fault in faults if fault.id is None]


def library_markdown(faults: Sequence[Noticed]) -> str:
    """The page that is kept in the documentation.

    Args:
        faults: the planted faults, each with what noticed it.
    """
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [(f"`{function}`", *rest) for function, *rest in map(_cells, faults)]
    lines = [markdown_row(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join([HEAD, *lines, "", library_totals(faults) + ".", ""])


def _cells(fault: Noticed) -> tuple[str, ...]:
    if fault.id is None or fault.form is None:
        return fault.function, fault.name, "none", "", ""
    return (
        fault.function,
        fault.name,
        f"{fault.id} ({fault.form.value})",
        f"{fault.recorded} -> {fault.outcome}",
        fault.how,
    )
