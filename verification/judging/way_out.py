"""Options with which the hypotheses of a form would be met, found by evaluating the hypotheses and not by a formula."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from decimal import ROUND_FLOOR, Context
from functools import lru_cache
from typing import Any

from bounds import Form, Hypothesis, Options, Statement
from bounds.case import AnyFamily
from bounds.federated_run import EXPENSIVE
from ntkfl import Setup, interruption
from verification.judging.boundary import boundary
from verification.judging.families import families

# options with the values that some hypotheses ask for
FIXED: dict[str, Any] = {"unit": True, "sigma": 1.0, "local_steps": 1, "eta_global": 1.0}
DIGITS, RATIO = 3, 1.001  # number of digits of a step in reports, and precision of the search as a ratio
ROUGH_DIGITS, ROUGH_RATIO = 2, 1.2  # take the place of DIGITS and RATIO if every tried step costs a run
SHARE = 2.0**-12  # the search tries steps down to this share of the step that fails
WIDEST = 2**14
KEPT = 8  # number of cases that are held at the same time

Build = Callable[[Options], tuple[AnyFamily, int]]  # a function from options to the family and the seed of a case


class Cases:
    """Cases, and the margins of each hypothesis on them.

    Each case and each margin is computed once, even if several statements need it.
    """

    def __init__(self) -> None:
        self._case = lru_cache(KEPT)(lambda case: case[0].case(case[1]))  # takes a pair of a family and a seed
        self._margins: dict[tuple[AnyFamily, int], dict[int, float]] = {}
        # keeps the hypotheses alive, so that no other object gets a hypothesis's id
        self._asked: dict[int, Hypothesis] = {}

    def of(self, family: AnyFamily, seed: int) -> Any:
        """The case that a family makes from a seed; the last few cases are kept.

        Args:
            family: the family of the case.
            seed: the case's seed.
        """
        return self._case((family, seed))

    def margins(self, family: AnyFamily, seed: int) -> dict[int, float]:
        """The margins that are known so far on a case, by the id of the hypothesis.

        Callers add margins that they compute.

        Args:
            family: the family of the case.
            seed: the case's seed.
        """
        return self._margins.setdefault((family, seed), {})

    def met(self, hypothesis: Hypothesis, family: AnyFamily, seed: int) -> bool:
        """Whether a case meets a hypothesis; a case that cannot be computed does not meet it.

        Args:
            hypothesis: a hypothesis of the form.
            family: the family of the case.
            seed: the case's seed.
        """
        margins = self.margins(family, seed)
        if id(hypothesis) not in margins:
            self._asked[id(hypothesis)] = hypothesis
            try:
                margins[id(hypothesis)] = hypothesis.least(self.of(family, seed))
            except (ArithmeticError, ValueError):  # the run overflows, or the data do not have the wanted size
                return False
        return margins[id(hypothesis)] >= 0


def way_out(
    statement: Statement,
    form: Form,
    options: Options,
    unmet: Sequence[str],
    family: int,
    seed: int,
    cases: Cases | None = None,
    widen: bool = True,
) -> Options | None:
    """Options near the chosen options, with which the case of `family` and `seed` meets the hypotheses `unmet`.

    None if the search found no such options. Hypotheses that need a run and rejected no case are not checked; `passes`
    checks all hypotheses.

    Args:
        statement: the claim.
        form: one of the statement's forms.
        options: the chosen options.
        unmet: the names of the hypotheses that rejected cases. The options must meet them, and also all hypotheses that
            can be checked without a run.
        family: index of the family that the case belongs to.
        seed: seed of the case.
        cases: cases shared with other statements; default: no cases are shared.
        widen: whether other widths are tried, which takes long.
    """
    if not all(h.eased_by for h in statement.required(form) if h.name in unmet):
        return None
    cases = cases or Cases()
    asked = [h for h in free_first(statement.required(form)) if h.free or h.name in unmet]
    build = _case_of(statement, form, family, seed)
    chosen: Options | None = options
    for _ in range(len(asked) + 1):
        assert chosen is not None
        failing = next((h for h in asked if not _met(h, build, chosen, cases)), None)
        if failing is None:
            return chosen
        chosen = _eased(failing, chosen, build, cases, widen)
        if chosen is None:
            return None
    return None


def passes(
    statement: Statement, form: Form, options: Options, family: int, seed: int, cases: Cases | None = None
) -> bool:
    """Whether a case meets every hypothesis of the form.

    Args:
        statement: the claim.
        form: one of the statement's forms.
        options: data, steps, seeds.
        family: index of the family that the case belongs to.
        seed: seed of the case.
        cases: as in `way_out`.
    """
    build, shared = _case_of(statement, form, family, seed), cases or Cases()
    return all(_met(h, build, options, shared) for h in free_first(statement.required(form)))


def passing_step(
    statements: Iterable[Statement], forms: Iterable[Form], options: Options, cases: Cases | None = None
) -> tuple[float, str]:
    """The largest eta_local with which the case of the first seed meets the hypotheses.

    The hypothesis that limits the step is returned too. The step has three digits, or two digits if a hypothesis needs
    a run. Hypotheses that no smaller step meets are left out; the verdicts on their forms say which options would meet
    them.

    Args:
        statements: the statements to check.
        forms: forms of the statements.
        options: data, sizes and other steps; the search begins at the default eta_local of `Setup`.
        cases: as in `way_out`.

    Returns: the step, and the name of the hypothesis that limits it.

    Raises:
        ValueError: no hypothesis of these statements limits the step, or the data cannot be loaded.
    """
    wanted, cases = set(forms), cases or Cases()
    limits: dict[int, tuple[Hypothesis, Build]] = {}  # a dictionary, since statements have hypotheses in common
    for statement in statements:
        for form in wanted & set(statement.forms):
            for hypothesis in statement.required(form):
                if "eta_local" in hypothesis.eased_by:
                    limits.setdefault(id(hypothesis), (hypothesis, _case_of(statement, form, 0, options.seed)))
    if not limits:
        raise ValueError("--eta-local auto: no hypothesis of these statements limits the step; leave it out")
    for _, build in limits.values():
        # errors of the data must be raised here; later they would look like a step that fails
        cases.of(*build(options))
    step, name = math.inf, ""
    for hypothesis, build in sorted(limits.values(), key=lambda pair: not pair[0].free):
        start = min(step, Setup.eta_local)
        largest = largest_step(hypothesis, options, build, start, cases, hardest=min(step, 64.0))
        if largest is not None and largest < step:
            step, name = largest, hypothesis.name
    if not name:
        raise ValueError("--eta-local auto: no step that was tried meets the hypotheses; give a step, to see why")
    return step, name


def free_first(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Hypotheses in the order in which they are evaluated; hypotheses that need no run come first.

    Args:
        hypotheses: hypotheses of a form.
    """
    return sorted(hypotheses, key=lambda hypothesis: not hypothesis.free)


def _case_of(statement: Statement, form: Form, family: int, seed: int) -> Build:
    return lambda chosen: (families(statement, form, chosen)[0][family], seed)


def largest_step(
    hypothesis: Hypothesis,
    options: Options,
    build: Build,
    start: float,
    cases: Cases,
    hardest: float | None = None,
) -> float | None:
    """The largest eta_local at which a case meets a hypothesis, rounded down. None if no such step was found.

    The step has three digits, or two digits if the hypothesis needs a run.

    Args:
        hypothesis: the hypothesis to meet.
        options: all options but the step.
        build: a function that makes a case (its family and seed) from options.
        start: the step at which the search begins.
        cases: as in `way_out`.
        hardest: the largest step that is tried; None: `start`.
    """

    def ask(step: float) -> bool:
        return _met(hypothesis, build, replace(options, eta_local=step), cases)

    hardest = start if hardest is None else hardest
    easiest = start * SHARE
    if hypothesis.free:
        digits, ratio, harder = DIGITS, RATIO, 2.0
    elif ask(easiest):  # each tried step costs a run, and bisecting the whole range takes the fewest runs
        digits, ratio, harder, start = ROUGH_DIGITS, ROUGH_RATIO, hardest / easiest, easiest
    else:
        return None
    edge = boundary(ask, start, harder=harder, easiest=easiest, hardest=hardest, ratio=ratio)
    if edge.value is None or edge.failed is None:
        return edge.value  # no step was found, or the largest step passes
    context = Context(prec=digits, rounding=ROUND_FLOOR)
    rounded = context.create_decimal(repr(edge.value))
    candidates = (float(context.next_plus(rounded)), float(rounded))
    return next((step for step in candidates if step <= hardest and ask(step)), None)


def changed(options: Options, other: Options) -> Options:
    """The options of `other` that differ from `options`; all other fields are left out.

    Args:
        options: the chosen options.
        other: the options to compare with the chosen ones.
    """
    kept = {f.name: getattr(other, f.name) for f in fields(other) if getattr(other, f.name) != getattr(options, f.name)}
    return Options(**kept)


def _met(hypothesis: Hypothesis, build: Build, options: Options, cases: Cases) -> bool:
    try:
        family, seed = build(options)
    except (ArithmeticError, ValueError):  # the data do not have the wanted size
        return False
    return cases.met(hypothesis, family, seed)


def _eased(hypothesis: Hypothesis, options: Options, build: Build, cases: Cases, widen: bool) -> Options | None:
    """The options with one option changed, so that the hypothesis is met. None if no single change meets it."""
    case = cases.of(*build(options))
    setup = getattr(case, "setup", Setup())
    for name in hypothesis.eased_by:
        if name == "width" and not widen:
            continue
        if name == "eta_local":
            step = largest_step(hypothesis, options, build, options.eta_local or setup.eta_local, cases)
            candidate = None if step is None else replace(options, eta_local=step)
        elif name == "width":
            problem = getattr(case, "problem", None)
            samples = 1 if problem is None else problem.n
            widest = EXPENSIVE / (samples * setup.local_steps * setup.rounds)
            candidate = _wider(hypothesis, options, build, options.width or setup.width, widest, cases)
        else:
            candidate = replace(options, **{name: FIXED[name]})
        if candidate is not None and candidate != options and _met(hypothesis, build, candidate, cases):
            return candidate
    return None


def _wider(
    hypothesis: Hypothesis, options: Options, build: Build, width: int, widest: float, cases: Cases
) -> Options | None:
    """The options with a larger width, which is doubled until the hypothesis is met.

    Widths at which runs take more than about a second are not tried; None if no tried width meets the hypothesis.
    """
    while (width := 2 * width) <= min(WIDEST, widest):
        interruption.check()
        if _met(hypothesis, build, replace(options, width=width), cases):
            return replace(options, width=width)
    return None
