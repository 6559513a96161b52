"""Tests of the functions that make mutants. A mutant is a formula made wrong on purpose.

These functions must replace a symbol wherever sympy's own substitution replaces it.
"""

import pytest
import sympy as sp

from bounds.mutants import index_shifted, power, replaced, without

k, n, t = sp.symbols("K n t", positive=True)
A, B = (sp.MatrixSymbol(name, n, n) for name in "AB")
EXPRESSIONS = (
    sp.Max(k * t**2, sp.exp(-k / t) + sp.sqrt(n)) / (1 + k) ** 3,
    (sp.Identity(n) - t * A * B.T) ** k * A.inv() + (t - 1 / k) * B,
    sp.Min(1, 2 * n * sp.exp(-k * t)),
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_symbol_is_replaced_as_by_substitution(expression):
    for mutant, old, new in (
        (without(k), k, 1),
        (power(t, 3), t, t**3),
        (index_shifted(k), k, k + 1),
        (replaced(A, B * A, "another matrix"), A, B * A),
    ):
        assert mutant.change(expression) == expression.subs(old, new)
