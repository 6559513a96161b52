"""Tests of `Canonical`, which combines long matrix expressions without traversing their parts again.

The results must equal the expressions that sympy's own operators make.
"""

import pytest
import sympy as sp

from bounds import catalogue
from bounds.fl_ntk.terms.canonical import Canonical, blocks

n, a, k = sp.Symbol("n", integer=True), sp.Symbol("a", positive=True), sp.Symbol("k", positive=True)
X, Y, H, E, F = (sp.MatrixSymbol(name, n, n) for name in "XYHEF")


def combined(x, y):
    met = x * H - a * (y + 2 * H) * x.T
    crossed = k * H * met * Y - met.T / (a * k) + sp.Integer(0) * H * x
    return 3 * crossed * y * crossed.T + met * (-k) - a**2 * H * crossed


def test_canonical_expressions_are_those_of_sympys_operators():
    with_operators = combined(X, Y)
    assert combined(Canonical(X), Canonical(Y)).expression == with_operators
    assert combined(Canonical(X), Y).expression == with_operators
    assert combined(Canonical(X), H).expression != with_operators


def test_blocks_are_summed():
    whole = X + a * Y
    assert blocks((E, F), Canonical(whole)).expression == E * whole * E + F * whole * F


@pytest.mark.parametrize("identifier", ["fl-ntk/drawn-memory", "fl-ntk/outer-nesterov"])
def test_formulas_made_so_are_canonical(identifier):
    (claim,) = catalogue()[identifier].forms.values()
    assert claim.parts[-1].doit() == claim.parts[-1]
