"""Tests of the formulas on pages, which are drawn in MathML.

The value of a drawn formula, computed from its MathML by `mathml_value`, equals the value of the formula in `bounds`.
"""

import re
from contextlib import suppress
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import sympy as sp
from mathml_value import look, value

from bounds import Form, Kind, catalogue, get
from bounds.formula import evaluate
from experiments.formulas.mathml import claim_rows, claims, failure, inline, mathml, premise
from ntkfl.estimate import NotFinite
from verification.plain_text import RELATION, left_out

SIZE = 3
INNER = "g"  # This symbol is an inner product, which is smaller than the squares of its factors.
WHOLE = {"K": 3, "T": 2}
CONSTANT = 7.0
LONG = ("fl-ntk/method-limits", "fl-ntk/drawn-memory", "fl-ntk/state-maps")  # each takes a second of processor time
CLAIMS = [
    pytest.param(statement, form, id=f"{name}-{form.value}", marks=pytest.mark.slow if name in LONG else ())
    for name, statement in catalogue().items()
    for form in statement.forms
]


def numbers(expressions, seed: int = 0, unit: float = 1.0) -> dict:
    """Returns values of symbols.

    Greek letters get small values, so that logarithms and roots are real. Values of Latin letters are multiplied by
    `unit`.
    """
    rng = np.random.default_rng(seed)
    values = {}
    for symbol in sorted({s for e in expressions for s in e.free_symbols}, key=lambda s: (s.name, str(type(s)))):
        if isinstance(symbol, sp.MatrixSymbol):
            shape = [1 if size == 1 else SIZE for size in symbol.shape]
            values[symbol] = rng.standard_normal(shape) + 4 * np.eye(*shape)
        elif symbol.name == INNER:
            values[symbol] = 0.7
        elif symbol.name in WHOLE:
            values[symbol] = WHOLE[symbol.name]
        else:
            small = len(symbol.name.partition("_")[0]) > 1
            values[symbol] = rng.uniform(0.01, 0.05) if small else unit * rng.uniform(2, 4)
    return values


def looks(values: dict) -> dict:
    known = {look(_inner(parsed(inline(symbol)))): v for symbol, v in values.items()}
    assert len(known) == len(values), "two symbols of one formula look the same"
    return known | {"<mi>I</mi>": np.eye(SIZE)}


def row(*children: ElementTree.Element) -> ElementTree.Element:
    whole = ElementTree.Element("mrow")
    whole.extend(children)
    return whole


def _inner(math: ElementTree.Element) -> ElementTree.Element:
    """Returns the drawing of a formula, without rows that hold one element only."""
    (body,) = math
    return body[0] if len(body) == 1 else body


def parsed(markup) -> ElementTree.Element:
    return ElementTree.fromstring(str(markup).replace(' xmlns="http://www.w3.org/1998/Math/MathML"', ""))


def drawn_row(markup, known: dict) -> list[ElementTree.Element]:
    """Returns the elements of a claim in one row.

    The last rows of a claim may explain names. The values of these names are added to `known`.
    """
    joined: list[ElementTree.Element] = []
    explained = False
    for line in parsed(str(markup).replace("<wbr>", "")):
        cells = [cell for math in line for part in math for cell in part if cell.tag != "mspace"]
        explains = (cells[0].text or "").startswith("where")
        if explained := explained or explains:
            name, _, *meaning = cells[explains:]
            known[look(name)] = value(row(*meaning), known)
        else:
            joined += cells
    return joined


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize(("statement", "form"), CLAIMS)
def test_a_claim_read_from_the_page_has_the_value_of_the_formula(statement, form):
    for markup, part in zip(claims(statement, form), statement.forms[form].parts, strict=True):
        assert_read(statement, statement.forms[form], sp.sympify(part), markup)


def assert_read(statement, formula, part, markup):
    """Asserts that what a reader sees on the page has the value of this part of the formula."""
    lower = [] if formula.lower is None else [sp.sympify(formula.lower)]
    values = _real_at([part, *lower])
    known = looks(values) | {"<mtext>constant</mtext>": CONSTANT}
    cells = drawn_row(markup, known)
    relations = [i for i, cell in enumerate(cells) if cell.tag == "mo" and cell.text in ("≤", "≥", "=")]
    relations = relations[: len(lower)] + relations[-1:]  # A left side may contain relations of its own.
    assert [cells[i].text for i in relations] == ["≤"] * len(lower) + [RELATION[statement.kind][0]]
    if said := left_out(part).replace(" ", "\N{NO-BREAK SPACE}"):
        assert "".join(cell.text for cell in cells[relations[-1] + 1 :]).rstrip("\N{NO-BREAK SPACE}") == said
        return
    factor = CONSTANT if statement.kind is Kind.ORDER else 1
    read = value(row(*cells[relations[-1] + 1 :]), known)
    assert read == pytest.approx(factor * _exact(part, values), rel=1e-9)
    if lower:
        assert value(row(*cells[: relations[0]]), known) == pytest.approx(_exact(lower[0], values), rel=1e-9)


@pytest.mark.parametrize(
    "identifier", [i for i, s in catalogue().items() if any(f.failure or f.premise for f in s.forms.values())]
)
def test_what_stands_beside_a_claim_has_its_value(identifier):
    for formula in catalogue()[identifier].forms.values():
        shown = [] if formula.failure is None else [(failure(formula), sp.sympify(formula.failure))]
        shown += [
            (drawn, sp.sympify(v))
            for (_, drawn), v in zip(premise(formula), (formula.premise or {}).values(), strict=True)
        ]
        for markup, expected in shown:
            values = numbers([expected])
            assert value(parsed(markup), looks(values)) == pytest.approx(_exact(expected, values), rel=1e-9)


def _real_at(expressions) -> dict:
    """Returns numbers at which every expression is real.

    A unit is the factor by which `numbers` multiplies the values of Latin letters. Of a few units, the largest one is
    taken at which every expression is real, since some roots are real near 0 only.
    """
    for unit in (1.0, 1e-1, 1e-2, 1e-3):
        values = numbers(expressions, unit=unit)
        with suppress(NotFinite):
            for expression in expressions:
                _exact(expression, values)
            return values
    raise AssertionError(f"no real value was found of {expressions}")


def _exact(expr, values):
    evaluated = np.asarray(evaluate(expr, values).value, float)
    return float(evaluated) if evaluated.ndim == 0 else evaluated.reshape(-1, 1) if evaluated.ndim == 1 else evaluated


@pytest.mark.parametrize("text", ["<script>", "&amp;", "a\\b", "x_{<i>}", "r^{(&)}", "$#%", "{", "é"])
def test_what_stands_in_a_name_is_text(text):
    shown = parsed(inline(sp.Symbol(text)))
    assert {node.tag for node in shown.iter()} <= {"math", "mrow", "mi", "mn", "mo", "mtext", "msub", "msup"}
    kept = "".join(shown.itertext())
    assert all(sign in kept for sign in text if sign not in "_^{}"), kept


def test_latex_of_the_pages_is_text():
    (body,) = parsed(mathml(r"\text{<b>&} < 3"))
    assert [(node.tag, node.text) for node in body] == [("mtext", "<b>&"), ("mo", "<"), ("mn", "3")]


FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$", re.DOTALL)
PROOFS = sorted((Path(__file__).parents[3] / "docs" / "proofs").glob("*.md"))


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("page", PROOFS, ids=lambda page: page.stem)
def test_formulas_of_proofs_show_no_command_and_every_bar_opens_or_closes(page):
    for formula in FORMULA.finditer(page.read_text(encoding="utf-8")):
        shown = parsed(mathml(formula[1] or formula[2]))
        assert "\\" not in "".join(shown.itertext()), formula[0]
        forms = [node.get("form") for node in shown.iter() if node.text in ("|", "‖")]
        assert forms.count("prefix") == forms.count("postfix") == len(forms) / 2, formula[0]


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        pytest.param(r"|x|^2 + \lvert y \rvert", "<><>", id="typed-and-named"),
        pytest.param(r"\bigl\lvert \lvert a \rvert - |b| \bigr\rvert", "<<><>>", id="nested"),
        pytest.param(r"\frac{|a|}{\lVert b \rVert} \left| \frac{|c|}{d} \right|", "<><><<>>", id="braces"),
    ],
)
def test_a_bar_is_told_apart_as_opening_or_closing(text, forms):
    bars = [node.get("form") for node in parsed(mathml(text)).iter() if node.text in ("|", "‖")]
    assert bars == [{"<": "prefix", ">": "postfix"}[form] for form in forms]


@pytest.mark.parametrize("whole", [False, True])
def test_a_name_has_one_meaning_in_all_parts_of_a_claim(whole):
    """A name has one meaning in all parts of a claim, because the parts stand in one display, below each other.

    `show --tex` uses one display too.
    """
    meanings: dict[str, set[str]] = {}
    for row in chain.from_iterable(claim_rows(get("deep/kernel"), Form.NEW, whole=whole)):
        if explained := re.match(r"(?:\\text\{where \})? ?([aM]_\{\d+\}) = (.*)", row):
            meanings.setdefault(explained[1], set()).add(explained[2])
    assert len(meanings) >= 3
    assert all(len(of_name) == 1 for of_name in meanings.values())
