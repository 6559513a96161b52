"""The machine that checks any statement: each case is drawn once, and every form and every mutant is judged on it.

A case is drawn from a family by its seed. A mutant is a wrong version of a form's formula, which the check should find
violated. The cases are drawn in a few steps, called looks, each of which draws more of them; see
`verification.judging.looks`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from bounds import Form, Options, Statement
from bounds.case import NOT_COMPUTED, AnyFamily, case_of
from ntkfl import interruption
from ntkfl.gram.threads import one_blas_thread
from verification.judging.case_memory import fit_together
from verification.judging.check import Check, begun
from verification.judging.looks import Ladders, drawn, shares
from verification.judging.way_out import Cases
from verification.verdict import Verdict

# number of threads that prepare cases, and number of cases that may be prepared before they are judged
THREADS, AHEAD = 3, 8

Progress = Callable[[str, int, int], None]
Wanted = Callable[[AnyFamily, int, Any], bool]
Begin = Callable[..., Check]  # a function of the arguments share and looks; it calls `begun`, and returns the check


def verify(statement: Statement, options: Options | None = None, form: Form | None = None) -> list[Verdict]:
    """Check one form of a statement, or every form that it has.

    Args:
        statement: the claim.
        options: data, sizes, steps and seed of the cases; default: `Options()`.
        form: one of its forms; default: all.

    Raises:
        TypeError: `options` is no Options, or `form` no Form.

    Example:
        >>> from bounds import Form, Options, get
        >>> from verification import verify
        >>> [str(verdict.outcome) for verdict in verify(get("fl-ntk/C.6"), options=Options(trials=20))]
        ['holds', 'holds']
    """
    return verify_all([statement], Options() if options is None else options, None if form is None else [form])


def verify_all(
    statements: Iterable[Statement],
    options: Options,
    forms: Iterable[Form] | None = None,
    progress: Progress | None = None,
    threads: int = THREADS,
) -> list[Verdict]:
    """Check many statements; each case is built once and judged for every form that is checked on it.

    Args:
        statements: the statements to check.
        options: data, sizes, steps and seed of the cases.
        forms: the only forms to check; default: all.
        progress: a function that is called with the family, the number of cases done and the number of all cases;
            default none.
        threads: number of threads that prepare cases while other cases are judged; use 0 if other processes use the
            other cores; default 3.

    Raises:
        TypeError: as for `verify`.

    If interrupted (Ctrl-C), the function returns verdicts on the cases counted so far, marked as incomplete. After a
    second interrupt it returns only the verdicts that are finished by then.
    """
    if not isinstance(options, Options):
        raise TypeError(f"the options are {options!r:.40}; options come before forms, and are bounds.Options(...)")
    claims = [
        (partial(begun, statement, form, options), options) for statement, form in chosen_forms(statements, forms)
    ]
    return verdicts_of_claims(claims, shares(options), options.seed, progress, threads)


def verdicts_of_claims(
    claims: Sequence[tuple[Begin, Options]],
    looks: Sequence[float],
    seed: int,
    progress: Progress | None = None,
    threads: int = THREADS,
) -> list[Verdict]:
    """The verdicts of claims, in the order of the claims.

    Each claim has options of its own. The seeds of all cases begin at `seed`.
    """
    places, before, cases, ladders = list(range(len(claims))), 0, Cases(), Ladders()
    counted: dict[int, Check] = {}
    # A ladder is a case with networks of several sizes. An earlier look may have settled a form on a part of the
    # ladder's networks. So the last look is taken twice. In the second pass every ladder has all of its networks.
    for number, share in enumerate((*looks, looks[-1])):
        checks = {place: counted[place] for place in places if place in counted and counted[place].further(share)}
        for place in places:
            if place not in checks:
                checks[place] = claims[place][0](share=share, looks=len(looks))
                if place in counted and number < len(looks):
                    checks[place].before = counted[place].settled_ladders
        last = all(check.whole for check in checks.values())
        try:
            before += run_cases(list(checks.values()), seed, _told(progress, before, last), threads, ladders)
            with interruption.released():
                for check in () if last else checks.values():
                    check.redo()
        except KeyboardInterrupt:
            interruption.taken()
            last = True
        for place, check in checks.items():
            counted[place] = max(check, counted.get(place, check), key=_worth)
        places = [] if last else [place for place in places if counted[place].missing]
        if not places:
            if progress is not None and not last:
                progress("decided", before, before)
            break
    verdicts = []
    try:
        with interruption.released():
            for place, check in counted.items():
                missing = check.missing
                if check.tally.trials or not missing:
                    verdicts.append(check.verdict(claims[place][1], missing, cases))
    # if a confirmation or a stored case is interrupted, the verdicts that are finished are kept
    except KeyboardInterrupt:
        interruption.taken()
    return verdicts


def _worth(check: Check) -> tuple[bool, bool, int]:
    """The rank of a look, as a key for sorting.

    A look at all needed cases is best, then a look that refutes the form, then a look with more trials.
    """
    trials = check.tally.trials
    return not check.missing, check.tally.refuted(trials), trials


def _told(progress: Progress | None, before: int, last: bool) -> Progress | None:
    """The progress function of a look.

    The function adds the cases of earlier looks to the number of cases done and to the total, and 1 to the total if
    another look may follow.
    """
    if progress is None:
        return None
    return lambda family, done, total: progress(family, before + done, before + total + (not last))


def run_cases(
    checks: Sequence[Check],
    first_seed: int,
    progress: Progress | None = None,
    threads: int = THREADS,
    ladders: Ladders | None = None,
) -> int:
    """Give every check the cases of its families that the check has not seen; returns the number of cases built.

    A case that several checks need is built once.
    """
    ladders = Ladders() if ladders is None else ladders
    asking: dict[tuple[AnyFamily, int], list[Check]] = {}
    for check in checks:
        for family, count in check.drawn.items():
            for seed in range(first_seed + check.cases_done[family], first_seed + count):
                asking.setdefault((family, seed), []).append(check)
    families = list(dict.fromkeys(family for family, _ in asking))
    plan = sorted(asking, key=lambda case: (families.index(case[0]), case[1]))
    if threads and not fit_together(families, first_seed, THREADS + AHEAD):
        threads = 0  # large cases are built one at a time

    def wanted(family: AnyFamily, seed: int, case: Any) -> bool:
        return any(check.may_admit(case) for check in asking[family, seed])

    with (
        interruption.released(),
        one_blas_thread(),  # threads prepare the cases already, so linear algebra needs no threads of its own
    ):
        built = zip(plan, _ahead(plan, threads, wanted, ladders), strict=True)
        for done, ((family, seed), case) in enumerate(built, 1):
            # each hypothesis is evaluated once, since statements and forms share hypotheses
            margins: dict[int, float] = {}
            label = {"cases": family.name, "case_seed": seed}
            for check in asking[family, seed]:
                if isinstance(case, Exception):
                    check.fail_on(label, case)
                else:
                    check.add(case, label, margins)
                check.cases_done[family] += 1
            if progress is not None:
                progress(family.name, done, len(plan))
            interruption.check()
    return len(plan)


def chosen_forms(statements: Iterable[Statement], forms: Iterable[Form] | None) -> list[tuple[Statement, Form]]:
    """The wanted forms of the statements; every form if `forms` is None."""
    wanted = list(Form) if forms is None else list(forms)
    if strangers := [form for form in wanted if not isinstance(form, Form)]:
        raise TypeError(f"the form is {strangers[0]!r:.40}; it must be one of {', '.join(map(str, map(repr, Form)))}")
    return [(statement, form) for statement in statements for form in statement.forms if form in wanted]


def _ahead(plan: Sequence[tuple[AnyFamily, int]], threads: int, wanted: Wanted, ladders: Ladders) -> Iterator[Any]:
    """The cases of a plan in order. While one case is judged, threads prepare the next few.

    `wanted` says whether any check may admit a case; cases that no check may admit are not prepared.
    """
    if not threads:
        yield from (_built(family, seed, wanted, ladders) for family, seed in plan)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque = deque()
        try:
            for family, seed in plan:
                waiting.append(pool.submit(_built, family, seed, wanted, ladders))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _built(family: AnyFamily, seed: int, wanted: Wanted, ladders: Ladders) -> Any:
    """The prepared case, or the exception that was raised when it was constructed.

    A case is kept even if one of its quantities cannot be computed, because some statements do not use that quantity,
    and because a hypothesis may reject the case. A check that uses the quantity meets the error again.
    """
    try:
        case = drawn(family, seed, ladders)
        if wanted(family, seed, case):
            with suppress(*NOT_COMPUTED):
                case_of(case).prepare()
    except Exception as error:
        return error
    return case
