"""A theorem as data: its hypotheses, its formula in every form, the measurement of its left side, cases and mutants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bounds.case import AnyFamily, Family
from bounds.formula import Formula
from bounds.hypothesis import Hypothesis
from bounds.vocabulary import Change, Form, Kind, Nature, Outcome, Provenance, Source
from ntkfl.balls import precision
from ntkfl.estimate import Estimate
from ntkfl.messages import refusing


@dataclass(frozen=True)
class Mutant:
    """A wrong version of a formula, which the checker must call violated.

    If `reverse` is true, the comparison between left side and right side is reversed.
    """

    name: str
    change: Callable[[Any], Any]
    sort: Change = Change.OTHER
    reverse: bool = False


Measure = Callable[[Any], Estimate | tuple[Estimate, ...]]
Families = Callable[[Any], tuple[AnyFamily, ...]] | tuple[Family, ...]


class FixedFamilies(tuple[Family, ...]):
    """A function that returns the same families for all options."""

    def __call__(self, options: Any) -> tuple[AnyFamily, ...]:
        return tuple(family.with_trials(options.trials) for family in self)


OLD_NAMES = {"draws": "the families of cases are its families=..."}


@refusing(OLD_NAMES)
@dataclass(frozen=True)
class Claim(Formula):
    """A statement in one of its forms: a formula, the cases where it is claimed, and the recorded outcome.

    Args:
        recorded: the settled outcome.
        witness: for a violated form, a function that gives a stored case of the violation.
        nature: how this form differs from a form that holds; None: it does not differ.
        hypotheses: hypotheses in addition to the statement's.
        measure: the left side, if it differs from the statement's.
        left_formula: the formula of the left side, as in `Statement`, if `measure` is given.
        families: the families of cases, if they differ from the statement's.
        note: a text that is shown beside the formula.
        consequence: what a reader who relies on this form must change, if it differs from a form that holds.
        read: the kind of text from which the formula is read, if it differs from the source's.
        reading: how sure the letters and signs of a scanned formula are, the other places at which the formula occurs,
            and the formula as it stands at these places.
    """

    recorded: Outcome = Outcome.HOLDS
    nature: Nature | None = None
    hypotheses: tuple[Hypothesis, ...] = ()
    measure: Measure | None = None
    left_formula: str | tuple[str, ...] = ()
    families: Families | None = None
    witness: Callable[[], Any] | None = None
    note: str = ""
    consequence: str = ""
    read: Provenance | None = None
    reading: str = ""


def _all(values: Any, kind: type) -> bool:
    return isinstance(values, tuple) and all(isinstance(value, kind) for value in values)


@refusing(
    OLD_NAMES
    | {
        "asked": "families_of(form, options) has the families of one form",
        "forms": "a form is an argument of its own, such as stated=Claim(...); also proved, repaired and new",
    },
    {"kind": "give kind=Kind.UPPER for an upper bound, Kind.LOWER for a lower bound, or another Kind"},
)
@dataclass(frozen=True, eq=False, kw_only=True)
class Statement:
    """One numbered result.

    Args:
        id: paper/label, as in the list of statements.
        title: one line.
        source: its source.
        kind: decides the check, for example Kind.UPPER for an upper bound.
        note: what a reader should know about the statement: its printed and its intended text, and how it is proved;
            default nothing.
        stated: the claim as printed. The default of this argument and of the next three is None: there is no such form.
        proved: the claim as its proof gives it.
        repaired: the claim with the condition or the correction that the printed claim lacks.
        new: the claim, if it is this project's own.
        measure: the left side on a case, an Estimate (an array where the claim is made for many rounds or entries), or
            an Estimate for each part.
        constants: the values of the formulas' symbols on a case, if there are any. `measure` and `constants` share only
            the case.
        families: the families of cases on which the statement is checked: values, or a function of the user's options
            that returns families.
        hypotheses: the hypotheses of every form.
        mutants: wrong formulas, derived from the last form that is recorded to hold.
        necessity: maps the name of a hypothesis to a function that makes a case. The case breaks the claim although it
        meets all other hypotheses.
        says_left: how the left side is measured, in words.
        left_formula: the left side in the paper's symbols, one for each part, in plain text such as "max_r |u_r(t) -
            u_r(0)|". The left side of a rate is a power, for example "exponent in m of ...". By default the word
            "left" stands in place of this formula.
        uses: ids of the statements on which the statement rests.
        symbols: meanings of the statement's own symbols, if the glossary lacks the name or gives it another meaning.
        knobs: the horizontal axes of the statement's picture: symbols, or words of a case's description. By default
            they are the two quantities that correlate best with left/right, among those that vary over the cases.
    """

    id: str
    title: str
    source: Source
    kind: Kind
    stated: Claim | None = None
    proved: Claim | None = None
    repaired: Claim | None = None
    new: Claim | None = None
    measure: Measure
    families: Families
    says_left: str
    note: str = ""
    left_formula: str | tuple[str, ...] = ()
    constants: Callable[[Any], Mapping[Any, Any]] = lambda case: {}
    hypotheses: tuple[Hypothesis, ...] = ()
    mutants: tuple[Mutant, ...] = ()
    necessity: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    uses: tuple[str, ...] = ()
    symbols: Mapping[Any, str] = field(default_factory=dict)
    knobs: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.kind, Kind):  # the text "rate" equals Kind.RATE, but is not a Kind
            raise TypeError(f"kind of {self.id} is {self.kind!r}; it must be a Kind, such as Kind.UPPER")
        if not self.forms:
            raise TypeError(f"{self.id} has no form; give stated=Claim(...), or proved, repaired or new")
        for form, claim in self.forms.items():
            if not isinstance(claim, Claim):
                right = f"Claim({claim})" if not isinstance(claim, Formula) else f"Claim({claim.expression}, ...)"
                raise TypeError(f"the {form} form of {self.id} is {claim}; it must be a Claim: {right}")
            if (claim.lower is None) == (self.kind is Kind.TWO_SIDED):  # other kinds of checks ignore `lower`
                right = "kind=Kind.TWO_SIDED has a Claim(upper end, lower=lower end); other kinds have no lower end"
                raise ValueError(
                    f"the {form} form of {self.id} is {self.kind}, and its lower is {claim.lower}; {right}"
                )
        for name in ("constants", "measure"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} of {self.id} is {getattr(self, name)!r}; it must be a function of a case")
        forms = (
            (f"the {form} form of {self.id}", claim.families) for form, claim in self.forms.items() if claim.families
        )
        for of, families in ((self.id, self.families), *forms):
            if not callable(families) and not (families and _all(families, Family)):
                right = "a function of the options, or a tuple of Family values, as in (FAMILY,)"
                raise TypeError(f"families of {of} is {families!r}; it must be {right}")
        if not callable(self.families):
            object.__setattr__(self, "families", FixedFamilies(self.families))
        if not _all(self.mutants, Mutant):
            raise TypeError(f"mutants of {self.id} is {self.mutants!r}; it must be a tuple of them, as in (MUTANT,)")
        names = {h.name for form in self.forms for h in self.required(form)}
        for name in set(self.necessity) - names:
            raise ValueError(f"{self.id} has a necessity case for {name!r}, which is none of its hypotheses")

    @property
    def forms(self) -> dict[Form, Claim]:
        """The claim of each form that exists."""
        return {form: claim for form in Form if (claim := getattr(self, form)) is not None}

    def with_forms(self, forms: Mapping[Form, Claim]) -> Self:
        """The same statement with these forms and no others.

        Args:
            forms: the forms of the new statement, each with its claim.
        """
        claims: dict[str, Any] = {form: forms.get(form) for form in Form}
        return replace(self, **claims)

    def provenance(self, form: Form) -> Provenance:
        """The kind of source of a form's letters and signs; repaired and new forms are this project's own.

        Args:
            form: one of the statement's forms.
        """
        if form in (Form.REPAIRED, Form.NEW):
            return Provenance.OURS
        return self.forms[form].read or self.source.provenance

    def required(self, form: Form) -> tuple[Hypothesis, ...]:
        """The hypotheses of one form.

        Args:
            form: one of the statement's forms.
        """
        return self.hypotheses + self.forms[form].hypotheses

    def left_formulas(self, form: Form) -> tuple[str, ...]:
        """The left side of one form as formulas in plain text, part by part; empty if the form has no such formula.

        Args:
            form: one of the statement's forms.
        """
        claim = self.forms[form]
        given = claim.left_formula or (() if claim.measure else self.left_formula)
        return (given,) if isinstance(given, str) else given

    def families_of(self, form: Form, options: Any) -> tuple[AnyFamily, ...]:
        """The families of cases on which one form is checked, with as many seeds as the user asks for.

        Args:
            form: one of the statement's forms.
            options: data, sizes, steps and seed, as the user chose them.
        """
        given = self.forms[form].families or self.families
        return tuple((given if callable(given) else FixedFamilies(given))(options))

    def left(self, form: Form, case: Any) -> tuple[Estimate, ...]:
        """The measured left side of one form on a case, part by part, each in its shape.

        Args:
            form: one of the statement's forms.
            case: a case of the statement's families.

        Raises:
            TypeError: a measured part is no Estimate.
        """
        measured = (self.forms[form].measure or self.measure)(case)
        parts = measured if isinstance(measured, tuple) else (measured,)
        for part in parts:
            if not isinstance(part, Estimate):
                raise TypeError(
                    f"{self.id} measures a {type(part).__name__}; it must be an Estimate, a value with its error "
                    "(Estimate.exact(value) where it has none)"
                )
        return parts

    def measured(self, form: Form, case: Any) -> tuple[tuple[Estimate, ...], Mapping[Any, Any]]:
        """The left side of one form on a case, and the constants of its formulas on this case.

        Both are computed at the same precision of ball arithmetic.

        Other threads of the process, such as those that prepare cases, do not change these values.

        Args:
            form: one of the statement's forms.
            case: a case of the statement's families.

        Returns: the left side, part by part, each in its shape, and the constants by symbol.
        """
        with precision():
            return self.left(form, case), self.constants(case)

    def evaluate(self, constants: Mapping[Any, Any], form: Form | None = None) -> tuple[Estimate, ...]:
        """The right side for a user's own numbers, part by part, each in its shape.

        Args:
            constants: a number, array or `Estimate` for each symbol.
            form: one of the statement's forms; default: the last form that is recorded to hold.

        Raises:
            ValueError: a value that is not positive for a positive symbol, or negative for a nonnegative one.

        Example:
            >>> from bounds import get
            >>> statement = get("averaging/I1")
            >>> symbols = statement.forms[statement.mutated_form].expression.free_symbols
            >>> [float(part.value) for part in statement.evaluate(dict.fromkeys(symbols, 1.0))]
            [1.0]
        """
        for symbol, value in constants.items():
            given = np.asarray(getattr(value, "value", value))
            if getattr(symbol, "is_positive", False) and np.any(given <= 0):
                raise ValueError(f"{symbol} is {value}; it must be positive")
            if getattr(symbol, "is_nonnegative", False) and np.any(given < 0):
                raise ValueError(f"{symbol} is {value}; it must be 0 or more")
        return self.forms[form or self.mutated_form].evaluate(constants)

    def solve_for(
        self, symbol: Any, value: float, constants: Mapping[Any, Any], form: Form | None = None
    ) -> list[float]:
        """The values of a symbol at which the right side equals `value`: for example the width at which a bound is 1.

        Args:
            symbol: a symbol of the formula.
            value: the value of the right side's last part.
            constants: values of the other symbols.
            form: one of the statement's forms; default: the form of which mutants are made.
        """
        return self.forms[form or self.mutated_form].solve_for(symbol, value, constants)

    @property
    def mutated_form(self) -> Form:
        """The form from which mutants are made: the last form that is recorded to hold, or else the last form."""
        holding = [form for form, claim in self.forms.items() if claim.recorded is Outcome.HOLDS]
        return (holding or list(self.forms))[-1]
