"""The data of the pictures of statements: the cases that `verify` draws, measured and compared."""

from collections.abc import Iterable

from bounds import Form, Options, Statement
from verification.case_points import STORED, CasePoints
from verification.compare import judge
from verification.engine import Progress, chosen_forms, run_cases
from verification.judging.check import Check, begun
from verification.judging.confirm import expected_warnings


def seen_of(
    statements: Iterable[Statement],
    options: Options | None = None,
    progress: Progress | None = None,
    limit: int | None = None,
) -> dict[tuple[str, Form], CasePoints]:
    """The measurements of every form on the cases that `verify` draws; no mutants are judged and no verdicts are given.

    The stored cases of the forms are included.

    Args:
        statements: statements, of which all forms are measured.
        options: data, sizes, steps and seed of the cases; default `Options()`.
        progress: as for `verify_all`; default None.
        limit: how many cases of a form are kept; default None, which keeps all.

    Raises:
        RuntimeError: a statement's own code failed.
    """
    options = options or Options()
    checks = [begun(statement, form, options) for statement, form in chosen_forms(statements, None)]
    for check in checks:
        check.mutated, check.mutants = [], []
    run_cases(checks, options.seed, progress=progress)
    for check in checks:
        if check.error is not None:
            raise RuntimeError(f"{check.statement.id} ({check.form.value}): {check.error}")
        if not check.own_data and check.statement.forms[check.form].witness is not None:
            _add_stored(check)
    return {(check.statement.id, check.form): check.points.case_points(limit) for check in checks if check.points.rows}


@expected_warnings()
def _add_stored(check: Check) -> None:
    statement, form = check.statement, check.form
    witness = statement.forms[form].witness
    assert witness is not None
    case = witness()
    known = statement.measured(form, case)
    right = statement.forms[form].evaluate(known[1])
    check.points.add(case, STORED, judge(statement, form, case, known=known, right=right), known, right)
