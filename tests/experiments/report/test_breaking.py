"""Tests of how long formulas are broken: they are cut where a reader expects it, and nowhere else."""

import re

import pytest

from experiments.formulas.breaking import pieces
from experiments.formulas.mathml import flowing

SIZED = re.compile(r"\\[bB]ig[lr]")


def cut(text: str, room: float = 12) -> list[str]:
    return pieces(text, lambda part: len(re.sub(r"\\(left|right|[bB]ig[lr]|text)|[{}\s]", "", part)), room)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a + b", ["a + b"], id="has-room"),
        pytest.param(
            r"aaaaaa \le bbbbbb + cccccc - dddddd", ["aaaaaa", r"\le bbbbbb", "+ cccccc", "- dddddd"], id="signs"
        ),
        pytest.param(r"aaaaaa = - bbbbbb \cdot - cccccc", ["aaaaaa", r"= - bbbbbb \cdot - cccccc"], id="no-sum"),
        pytest.param("|a - b| + |ccccccccc - d|", ["|a - b|", "+ |ccccccccc - d|"], id="bars"),
        pytest.param("w_+ + v^{a + b} + uuuuuuu_-", ["w_+", "+ v^{a + b}", "+ uuuuuuu_-"], id="scripts"),
        pytest.param(
            r"a \left(bbbbbb + cccccc\right) d", [r"a \bigl( bbbbbb", r"+ cccccc \bigr) d"], id="within-parentheses"
        ),
        pytest.param(
            r"\left(bbbbbb + cccccc\right)^{2} ddd", [r"\left(bbbbbb + cccccc\right)^{2}", "ddd"], id="behind-a-power"
        ),
        pytest.param(
            r"\le \frac{a \left(bbbbbb + cccccc\right)}{N} d",
            [r"\le \frac{a}{N} \bigl( bbbbbb", r"+ cccccc \bigr) d"],
            id="out-of-a-fraction",
        ),
        pytest.param(
            r"- \frac{bbbbbb + cccccc}{N}", [r"- \frac{1}{N} \bigl( bbbbbb", r"+ cccccc \bigr)"], id="a-sum-above"
        ),
        pytest.param(r"\frac{K - 1}2 aaaaaaaaaaaa", [r"\frac{K - 1}2 aaaaaaaaaaaa"], id="a-fraction-without-braces"),
        pytest.param(
            r"= \text{words side by side}",
            [r"= \text{words }", r"\text{side }", r"\text{by }", r"\text{side }"],
            id="words",
        ),
        pytest.param(r"aaaaaaaaaa := bb", ["aaaaaaaaaa", ":= bb"], id="definition"),
        pytest.param(r"{a \le b} \le cccccccccc", ["a", r"\le b", r"\le cccccccccc"], id="a-left-side-in-braces"),
    ],
)
def test_a_formula_is_cut_before_signs_relations_and_factors(text, expected):
    assert cut(text) == expected


def test_a_table_is_not_cut():
    text = r"\begin{array}{l} aaaaaaaaaaaa + b \end{array}"
    assert cut(text) == [text]


def test_what_is_cut_joins_to_the_formula_but_for_the_size_of_parentheses():
    text = r"aaaa \left(bb \left(cccccc + dddddd\right) - ee\right) + ffffff"
    joined = SIZED.sub(lambda size: r"\left" if size[0].endswith("l") else r"\right", " ".join(cut(text)))
    assert len(cut(text)) == 4 and joined.replace(" ", "") == text.replace(" ", "")


def test_a_sign_has_space_only_where_the_formula_goes_on():
    """The row has two pieces, each with a minus. The first minus is a sign, the second one subtracts."""
    row = "- " + " ".join("abcdefgh") + " - " + " ".join("abcdefghijklmnopqrstuvwxyz")
    first, second = re.findall(r"<mo[^>]*>−", flowing([row]))
    assert "infix" not in first and "infix" in second


def test_a_row_that_cannot_be_cut_to_a_phones_width_says_how_wide_it_stays():
    def size(letters):
        """Returns the HTML class of a row with one formula: the square root of a sum of `letters` letters."""
        total = " + ".join("abcdefghijklmnopqrstuvwxyz"[:letters])
        return re.match(r'<div class="([^"]*)"', flowing([rf"\sqrt{{{total}}}"]))[1]

    sizes = [size(letters) for letters in range(2, 27)]
    assert set(sizes) == {"rows", "rows wide", "rows widest"}
    assert sizes == sorted(sizes)  # A longer piece is never drawn larger.
