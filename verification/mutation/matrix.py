"""The power of the verifier: which wrong versions of a formula it notices, for every form that is recorded to hold.

A wrong version is called a mutant. A statement defines mutants of its own; standard mutants are made from the formula
alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import sympy as sp

from bounds import Change, Form, Formula, Kind, Options, Outcome, Statement
from bounds.formula import Constants
from bounds.mutants import index_shifted, power, reversed_comparison, scaled, shifted, without
from bounds.statement import Mutant
from ntkfl.estimate import Estimate
from verification.compare import IDENTITIES
from verification.engine import Progress, verify_all
from verification.verdict import Verdict

HALF, QUARTER = sp.Rational(1, 2), sp.Rational(1, 4)
# an O(.) claim has no constant that could be wrong
FACTORS = {Kind.LOWER: (2,), Kind.TWO_SIDED: (HALF, 2), Kind.ORDER: ()}
INDICES = ("t", "k", "K", "T")
# smallest relative change of a ratio along a ladder of sizes that counts; with a smaller change it is constant up to
# rounding
SAME_GROWTH = 1e-9
KEPT = 24  # number of cases of a form whose constants are kept, to explain why a mutant survived


def standard_mutants(statement: Statement, form: Form) -> tuple[Mutant, ...]:
    """The standard mutants of a form's formula.

    A constant is halved or doubled, the power of a parameter is multiplied by 1/2 or 3/2, factors are dropped, indices
    are shifted, signs are changed, and the comparison is reversed. Powers and indices are changed in both directions,
    although a change in only one of the directions claims more. (For equalities, powers are changed in one direction.)
    Mutants with equal formulas are made once.

    Args:
        statement: the statement whose formula is changed.
        form: one of the statement's forms.
    """
    formula, mutants, seen = statement.forms[form], [], [statement.forms[form].mutated(lambda part: part)]
    for mutant in _candidates(statement, form):
        changed = formula.mutated(mutant.change)
        if mutant.reverse or changed not in seen:
            mutants.append(mutant)
            seen.append(changed)
    return tuple(mutants)


def _candidates(statement: Statement, form: Form) -> Iterator[Mutant]:
    formula, kind = statement.forms[form], statement.kind
    ends = [sp.sympify(end) for end in (*formula.parts, *(() if formula.lower is None else (formula.lower,)))]
    symbols = {s for end in ends for s in end.free_symbols}
    matrices = {s for s in symbols if isinstance(s, sp.MatrixSymbol)}
    sizes = {s for matrix in matrices for size in matrix.shape for s in sp.sympify(size).free_symbols}
    scalars = sorted(symbols - matrices - sizes, key=str)
    # symbols in exponents stand for integers
    exponents = {s for end in ends for node in end.atoms(sp.MatPow) for s in node.exp.free_symbols}
    yield from map(scaled, FACTORS.get(kind, (HALF,)))
    if kind is Kind.RATE:
        yield from (shifted(QUARTER), shifted(-QUARTER))
    for symbol in scalars:
        if symbol not in exponents:
            changes = (HALF, 3 * HALF) if symbol.is_positive else (sp.Integer(2),)
            yield from (power(symbol, change) for change in (changes[:1] if kind in IDENTITIES else changes))
        yield without(symbol)
        if _is_index(statement, symbol):
            yield from (index_shifted(symbol, 1), index_shifted(symbol, -1))
    yield from _signs(ends)
    if kind not in (*IDENTITIES, Kind.RATE):
        yield reversed_comparison()


def _is_index(statement: Statement, symbol: sp.Symbol) -> bool:
    """Whether a symbol counts rounds or steps. A statement that means something else by the name says so."""
    meaning = statement.symbols.get(symbol, "round")
    return str(symbol) in INDICES and any(word in meaning for word in ("round", "step"))


def _signs(ends: list) -> Iterator[Mutant]:
    """Mutants in which one term of one sum has the opposite sign, for every term of every sum."""
    sums = {node for end in ends for node in sp.preorder_traversal(end) if isinstance(node, sp.Add | sp.MatAdd)}
    for node in sorted(sums, key=str):
        for place, term in enumerate(node.args):
            flipped = node.func(*node.args[:place], -term, *node.args[place + 1 :])
            yield _sign(node, term, flipped)
    for end in ends:
        if not end.free_symbols and end != 0 and not sums:
            yield replace(scaled(-1), sort=Change.SIGN)
            return


def _sign(node, term, flipped) -> Mutant:
    name = f"sign of {term} flipped in {node}"
    return Mutant(name, lambda end: sp.sympify(end).xreplace({node: flipped}), Change.SIGN)


class Fate(StrEnum):
    """The fate of a mutant. Only mutants that claim more than the form are wrong, and only these are counted."""

    KILLED = "killed"
    SURVIVED = "survived"
    WEAKER = "claims no more"
    NO_VALUE = "has no value"


@dataclass(frozen=True)
class MutantFound:
    """One mutant of one form and what became of it.

    `sort` is the kind of its change, `own` says whether the statement defines this mutant, and `why` explains the
    mutant's fate.
    """

    id: str
    form: Form
    name: str
    sort: Change
    own: bool
    fate: Fate
    why: str = ""


@dataclass
class _Kept:
    """A statement's constants, some of which are kept.

    The constants of every `stride`-th case are kept. If more than KEPT cases are kept, `stride` is doubled.
    """

    constants: Callable[[Any], Mapping[Any, Any]]
    cases: list[Constants] = field(default_factory=list)
    seen: int = 0
    stride: int = 1

    def __call__(self, case: Any) -> Mapping[Any, Any]:
        constants = self.constants(case)
        if self.seen % self.stride == 0:
            self.cases.append(constants)
            if len(self.cases) > KEPT:
                self.cases, self.stride = self.cases[::2], 2 * self.stride
        self.seen += 1
        return constants


def true_forms(statements: Iterable[Statement]) -> list[tuple[Statement, Form]]:
    """Every form that is recorded to hold.

    Args:
        statements: the statements to be checked.
    """
    return [(s, form) for s in statements for form, claim in s.forms.items() if claim.recorded is Outcome.HOLDS]


def only_form(statement: Statement, form: Form, **changed: Any) -> Statement:
    """The statement with this form alone, and without stored cases.

    Args:
        statement: a statement that has the form.
        form: the form that is kept.
        changed: other fields of `Statement` to replace.
    """
    alone = {form: replace(statement.forms[form], witness=None)}
    return replace(statement.with_forms(alone), **({"necessity": {}} | changed))


def mutation_matrix(
    statements: Iterable[Statement], options: Options, progress: Progress | None = None
) -> tuple[list[MutantFound], list[Verdict]]:
    """Judge the mutants of every true form on the form's cases: the standard mutants and the statement's own.

    Args:
        statements: statements whose forms recorded to hold are judged.
        options: data, sizes, steps and seed of the cases.
        progress: a function that is called with the family, the number of cases done and the number of all cases;
            default none.

    Returns: the result of each mutant, and the verdicts on the forms.
    """
    chosen = []
    for statement, form in true_forms(statements):
        brought = statement.mutants if form is statement.mutated_form else ()
        names = {mutant.name for mutant in brought}
        more = tuple(mutant for mutant in standard_mutants(statement, form) if mutant.name not in names)
        keep = _Kept(statement.constants)
        chosen.append((only_form(statement, form, mutants=brought + more, constants=keep), form, names, keep))
    verdicts = verify_all([variant for variant, *_ in chosen], options, progress=progress)
    fates = []
    by_form = {(v.id, v.form): v for v in verdicts}
    for variant, form, own_names, keep in chosen:
        verdict = by_form.get((variant.id, form))
        if verdict is None:
            continue  # the run was interrupted before the cases of this form
        for mutant in variant.mutants:
            fate, why = _fate(variant, form, mutant, verdict, keep.cases)
            own = mutant.name in own_names
            fates.append(MutantFound(variant.id, form, mutant.name, mutant.sort, own, fate, why))
    return fates, verdicts


def _fate(
    statement: Statement, form: Form, mutant: Mutant, verdict: Verdict, cases: list[Constants]
) -> tuple[Fate, str]:
    outcome = verdict.mutants.get(mutant.name)
    if outcome == Outcome.VIOLATED.value:
        return Fate.KILLED, ""
    if outcome is None or not verdict.trials:
        return Fate.SURVIVED, verdict.error or "no case was admitted"
    if mutant.reverse:
        return Fate.SURVIVED, "the sides are equal within their errors" + _may_fail(statement.forms[form])
    formula = statement.forms[form]
    gains = [_gain(statement.kind, formula, formula.mutated(mutant.change), constants) for constants in cases]
    known = [gain for gain in gains if gain is not None]
    if not known:
        return Fate.NO_VALUE, "not finite on the cases"
    gain = max(known)
    if gain == 1 and min(known) == 1:
        return Fate.SURVIVED, "has the same value on the cases"
    if gain <= 1:
        return Fate.WEAKER, ""
    return Fate.SURVIVED, _slack(statement.kind, formula, gain, verdict)


def _slack(kind: Kind, formula: Formula, gain: float, verdict: Verdict) -> str:
    sharpest = (verdict.tightness or {}).get("sharpest", np.nan)
    if kind in (*IDENTITIES, Kind.RATE):
        return "within the errors of both sides"
    if kind is Kind.ORDER:
        return f"tightens by {gain:.3g}x along the ladder, within the slope's interval"
    if not sharpest > 0:
        return "left/right says nothing where sides are negative" + _may_fail(formula)
    slack = 1 / sharpest
    where = "at most" if gain <= slack else "only where there is more slack, up to"
    return f"slack {slack:.3g}x, tightens {where} {gain:.3g}x{_may_fail(formula)}"


def _may_fail(formula: Formula) -> str:
    return ", or fails no more often than allowed" if formula.failure is not None else ""


def _gain(kind: Kind, formula: Formula, mutated: Formula, constants: Constants) -> float | None:
    """The largest factor by which a mutant is tighter than the form on a case.

    The factor is 1 if the mutant is as tight as the form, and None if the mutant has no value.
    """
    try:
        before, after = formula.evaluate(constants), mutated.evaluate(constants)
        gains = [_ratio(kind, b, a) for b, a in zip(before, after, strict=True)]
        if formula.lower is not None:
            lower = formula.evaluate_lower(constants), mutated.evaluate_lower(constants)
            gains.append(_ratio(Kind.LOWER, *lower))
    except ArithmeticError:
        return None
    if np.isnan(gains).any():
        return None
    return max((gain for gain in gains if gain != 1), default=1.0)


def _ratio(kind: Kind, before: Estimate, after: Estimate) -> float:
    same = np.abs(after.value - before.value) <= after.error + before.error
    if bool(np.all(same)):
        return 1.0
    if kind in (*IDENTITIES, Kind.RATE):
        return np.inf
    with np.errstate(all="ignore"):
        looser, tighter = (after, before) if kind is Kind.LOWER else (before, after)
        ratio = np.where(same, 1.0, np.where(tighter.value > 0, looser.value / tighter.value, np.inf))
        ratio = np.where((tighter.value <= 0) & (looser.value <= tighter.value), 0.0, ratio)
    if kind is Kind.ORDER:
        along = ratio.reshape(len(ratio), -1).mean(axis=1)
        growth = along[-1] / along[0] if along[0] > 0 and np.isfinite(along[0]) else np.nan
        return 1.0 if abs(growth - 1) < SAME_GROWTH else float(growth)
    largest = float(np.max(ratio))
    return largest if largest != 1 else 1 - 1e-9  # the mutant is as tight on some entries, looser on others
