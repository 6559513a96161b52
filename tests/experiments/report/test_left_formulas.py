"""Tests of the formulas of left sides: the drawn formula has every letter and sign of the plain text, in its order."""

import re
from dataclasses import replace

import pytest

from bounds import Form, Kind
from bounds.papers import own
from experiments.formulas.latex import typed
from experiments.formulas.mathml import mathml
from verification import plain_text

FORMS = [(statement, form) for statement in own().values() for form in statement.forms]
TEXTS = sorted({text for statement, form in FORMS for text in statement.left_formulas(form)})
DRAWN = {
    "⊤": "T",
    "′": "'",
    "\xa0": "",
    "−": "-",
    "˜": "~",
    "~": "~",
    "^": "",
    "√": "sqrt",
    "∑": "Σ",
    "*": "⋆",
    "⊥": "⊥",
    "𝔼": "E",
}


def letters(text: str) -> str:
    """Returns a formula without the commands that only place its signs."""
    told = "".join(DRAWN.get(sign, sign) for sign in text)
    return re.sub(r"[\s_^~{}()]|sqrt", "", told)


def content(text: str) -> str:
    return re.sub(r"<[^>]*>", "", str(mathml(typed(text)))).replace("&lt;", "<").replace("&gt;", ">")


def test_a_form_has_a_formula_for_each_of_its_parts():
    for statement, form in FORMS:
        assert len(statement.left_formulas(form)) == len(statement.forms[form].parts), (statement.id, form)


def test_a_form_that_is_measured_in_its_own_way_does_not_take_the_formula_of_another():
    statement = own()["fl-ntk/A.1"]
    bare = replace(statement.forms[Form.STATED], left_formula=())
    assert bare.measure
    assert replace(statement, stated=bare).left_formulas(Form.STATED) == ()
    movement = own()["fl-ntk/C.7-movement"]
    assert [len(movement.left_formulas(form)) for form in movement.forms] == [1, 2]


def test_the_formula_of_a_rate_says_whether_it_is_an_exponent_or_a_coefficient():
    for statement, form in FORMS:
        if statement.kind is Kind.RATE:
            first, *others = statement.left_formulas(form)
            assert first.startswith(("exponent in ", "log lim_")), statement.id
            assert all(text.startswith(("exponent in ", "log ", "lim_")) for text in others), statement.id


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_drawn_is_what_is_written(text):
    assert letters(content(text)) == letters(plain_text.typed(text))


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("max_r |u_r(t)|", r"\max_{r} | u_{r} ( t ) |"),
        ("lambda_min(H_inf) <= eps", r"\lambda_{\min} ( H_{\infty} ) \leq \varepsilon"),
        ("y_c^{(k+1)}(t)^T", r"y_{c}^{( k + 1 )} ( t )^{\top}"),
        ("sqrt(m x_i)/2", r"\sqrt{m x_{i}} / 2"),
        ("{t : share of all t}", r"\{ t : \text{ share of all } t \}"),
        ("lim_{m -> inf} 1 of E M otimes M", r"\lim_{m \to \infty} 1 \text{ of } \mathbb{E} M \otimes M"),
        ("H(w~, w^)", r"H ( \tilde{w} , \hat{w} )"),
        ("sqrt(2 log(m n)) + f(x)", r"\sqrt{2 \log (m n)} + f ( x )"),
    ],
)
def test_signs_words_and_scripts_are_set_as_such(text, latex):
    assert typed(text) == latex
