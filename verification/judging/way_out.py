"""What a user may choose so that the hypotheses that rejected cases are met: found by asking them, not by a formula."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from decimal import ROUND_FLOOR, Context
from typing import Any

from bounds.hypothesis import Hypothesis
from bounds.options import Options
from bounds.statement import Form, Statement
from ntkfl.problem import Setup
from verification.judging.boundary import boundary
from verification.judging.families import families

FIXED: dict[str, Any] = {"unit": True, "sigma": 1.0, "local_steps": 1, "eta_global": 1.0}  # values that hypotheses name
DIGITS, RATIO = 3, 1.001  # of a step: how many are told, and how near the search comes
SHARE = 2.0**-12  # a step is looked for down to this share of the one that fails
WIDEST = 2**14

Build = Callable[[Options], Any]


def way_out(
    statement: Statement, form: Form, options: Options, unmet: Sequence[str], family: int, seed: int
) -> Options | None:
    """Other options with which one case passes, as near to the chosen ones as was found; None where none was.

    Args:
        statement, form: what rejected cases. options: the chosen ones.
        unmet: the hypotheses that rejected cases. They must be met, and so must those that are free to check.
        family, seed: the case, of the families that the form is checked on.
    """
    if not all(h.eased_by for h in statement.required(form) if h.name in unmet):
        return None
    asked = [h for h in statement.required(form) if h.free or h.name in unmet]
    build = _case_of(statement, form, family, seed)
    chosen: Options | None = options
    for _ in range(len(asked) + 1):
        assert chosen is not None
        failing = next((h for h in asked if not _met(h, build, chosen)), None)
        if failing is None:
            return chosen
        chosen = _eased(failing, chosen, build)
        if chosen is None:
            return None
    return None


def passes(statement: Statement, form: Form, options: Options, family: int, seed: int) -> bool:
    """Whether a case meets every hypothesis of the form.

    Args:
        statement, form: what is asked. options: data, steps, seeds. family, seed: the case, as in `way_out`.
    """
    build = _case_of(statement, form, family, seed)
    return all(_met(h, build, options) for h in statement.required(form))


def passing_step(statements: Iterable[Statement], forms: Iterable[Form], options: Options) -> tuple[float, str]:
    """The largest eta_local, to three digits, with which the case of the first seed passes, and what limits it.

    Hypotheses that no smaller step meets are left out: their verdicts say what would.

    Args:
        statements: to be checked. forms: of them. options: data and steps; the search begins at its eta_local.

    Raises:
        ValueError: no hypothesis of these statements limits the step, or the data cannot be had.
    """
    wanted = set(forms)
    limits: dict[int, tuple[Hypothesis, Build]] = {}  # statements have hypotheses in common
    for statement in statements:
        for form in wanted & set(statement.forms):
            for one in statement.required(form):
                if "eta_local" in one.eased_by:
                    limits.setdefault(id(one), (one, _case_of(statement, form, 0, options.seed)))
    if not limits:
        raise ValueError("--eta-local auto: no hypothesis of these statements limits the step; leave it out")
    for _, build in limits.values():
        build(options)  # what is wrong with the data is said here; below it would pass for a step that fails
    step, name = math.inf, ""
    for one, build in sorted(limits.values(), key=lambda pair: not pair[0].free):
        start = min(step, Setup.eta_local)
        found = largest_step(one, options, build, start, hardest=min(step, 64.0))
        if found is not None and found < step:
            step, name = found, one.name
    if not name:
        raise ValueError("--eta-local auto: no step that was tried meets the hypotheses; give one, to see why")
    return step, name


def _case_of(statement: Statement, form: Form, family: int, seed: int) -> Build:
    return lambda chosen: families(statement, form, chosen)[0][family].case(seed)


def largest_step(
    hypothesis: Hypothesis, options: Options, build: Build, start: float, hardest: float | None = None
) -> float | None:
    """The largest eta_local, rounded down to three digits, at which a case meets a hypothesis; None: none was found.

    Args:
        hypothesis: to be met. options: all but the step. build: a case from options.
        start: the step at which the search begins. hardest: the largest step that is tried; None: start.
    """

    def ask(step: float) -> bool:
        return _met(hypothesis, build, replace(options, eta_local=step))

    hardest = start if hardest is None else hardest
    edge = boundary(ask, bool, start, harder=2.0, easiest=start * SHARE, hardest=hardest, ratio=RATIO)
    if edge.value is None:
        return None
    context = Context(prec=DIGITS, rounding=ROUND_FLOOR)
    rounded = context.create_decimal(repr(edge.value))
    candidates = (float(context.next_plus(rounded)), float(rounded))
    return next((step for step in candidates if step <= hardest and ask(step)), None)


def changed(options: Options, other: Options) -> Options:
    """What `other` has and `options` has not; all the rest left out."""
    kept = {f.name: getattr(other, f.name) for f in fields(other) if getattr(other, f.name) != getattr(options, f.name)}
    return Options(**kept)


def _met(hypothesis: Hypothesis, build: Build, options: Options) -> bool:
    try:
        return hypothesis.met(build(options))
    except (ArithmeticError, ValueError):  # a run that overflows, a size that the data do not have
        return False


def _eased(hypothesis: Hypothesis, options: Options, build: Build) -> Options | None:
    """The options with one of those changed that a user may meet the hypothesis with."""
    setup = getattr(build(options), "setup", Setup())
    for name in hypothesis.eased_by:
        if name == "eta_local":
            step = largest_step(hypothesis, options, build, options.eta_local or setup.eta_local)
            candidate = None if step is None else replace(options, eta_local=step)
        elif name == "width":
            candidate = _wider(hypothesis, options, build, options.width or setup.width)
        else:
            candidate = replace(options, **{name: FIXED[name]})
        if candidate is not None and candidate != options and _met(hypothesis, build, candidate):
            return candidate
    return None


def _wider(hypothesis: Hypothesis, options: Options, build: Build, width: int) -> Options | None:
    """With the first doubled width that meets the hypothesis."""
    while (width := 2 * width) <= WIDEST:
        if _met(hypothesis, build, replace(options, width=width)):
            return replace(options, width=width)
    return None
