"""Tests of formulas: every enclosure contains the value that is computed with 50 digits.

Expressions, inputs and the errors of the inputs are drawn at random.
"""

import math

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import assume, given, settings, strategies as st

from bounds import Formula
from bounds.formula import evaluate
from bounds.symbols import K, delta, eta_local, lam, m, n, r0
from ntkfl.balls import NotFinite
from ntkfl.estimate import Estimate

SYMBOLS = sp.symbols("x y z", positive=True)
DIGITS = 50

# The entries are name: (sympy function, the same function in mpmath). Both functions first map the argument into the
# domain of the named function.
UNARY = {
    "exp": (lambda e: sp.exp(-sp.Abs(e)), lambda v: mpmath.exp(-abs(v))),
    "log": (lambda e: sp.log(1 + sp.Abs(e)), lambda v: mpmath.log(1 + abs(v))),
    "sqrt": (lambda e: sp.sqrt(sp.Abs(e)), lambda v: mpmath.sqrt(abs(v))),
    "root": (lambda e: (1 + sp.Abs(e)) ** sp.Rational(-2, 3), lambda v: (1 + abs(v)) ** (-mpmath.mpf(2) / 3)),
    "erf": (sp.erf, mpmath.erf),
    "atan": (sp.atan, mpmath.atan),
    "asin": (lambda e: sp.asin(e / (1 + sp.Abs(e))), lambda v: mpmath.asin(v / (1 + abs(v)))),
    "acos": (lambda e: sp.acos(e / (1 + sp.Abs(e))), lambda v: mpmath.acos(v / (1 + abs(v)))),
    "square": (lambda e: e**2, lambda v: v**2),
    "inverse": (lambda e: 1 / (1 + e**2), lambda v: 1 / (1 + v**2)),
    "cosh": (lambda e: sp.cosh(sp.atan(e)), lambda v: mpmath.cosh(mpmath.atan(v))),
}
BINARY = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "subtract": (lambda a, b: a - b, lambda a, b: a - b),
    "multiply": (lambda a, b: a * b, lambda a, b: a * b),
    "max": (sp.Max, max),
    "min": (sp.Min, min),
}
LEAVES = st.one_of(
    st.sampled_from(SYMBOLS).map(lambda s: (s, lambda env: env[s])),
    st.fractions(-4, 4, max_denominator=12).map(
        lambda f: (sp.Rational(f.numerator, f.denominator), lambda env: mpmath.mpf(f.numerator) / f.denominator)
    ),
    st.just((sp.pi, lambda env: +mpmath.pi)),
)


def _one(child):
    def build(name, inner):
        symbolic, numeric = UNARY[name]
        return symbolic(inner[0]), lambda env: numeric(inner[1](env))

    return st.builds(build, st.sampled_from(sorted(UNARY)), child)


def _two(child):
    def build(name, left, right):
        symbolic, numeric = BINARY[name]
        return symbolic(left[0], right[0]), lambda env: numeric(left[1](env), right[1](env))

    return st.builds(build, st.sampled_from(sorted(BINARY)), child, child)


EXPRESSIONS = st.recursive(LEAVES, lambda child: _one(child) | _two(child), max_leaves=6)
POSITIVE = st.floats(1e-6, 1e4)


def fifty_digits(function, values):
    with mpmath.workdps(DIGITS):
        return function({s: mpmath.mpf(v) for s, v in zip(SYMBOLS, values, strict=True)})


def contains(estimate, value):
    """Says whether the enclosure contains a value that is known to about 40 digits."""
    with mpmath.workdps(DIGITS):
        distance = abs(mpmath.mpf(float(estimate.value)) - value)
        return distance <= mpmath.mpf(float(estimate.error)) + mpmath.mpf(10) ** -38 * (1 + abs(value))


@settings(deadline=None, max_examples=120)
@given(expression=EXPRESSIONS, values=st.tuples(POSITIVE, POSITIVE, POSITIVE))
def test_scalar_expressions(expression, values):
    symbolic, numeric = expression
    evaluated = evaluate(symbolic, dict(zip(SYMBOLS, values, strict=True)))
    value = fifty_digits(numeric, values)
    assume(abs(value) < 1e200)
    assert contains(evaluated, value)
    finer = evaluate(symbolic, dict(zip(SYMBOLS, values, strict=True)), bits=1024)
    assert contains(finer, value)
    if abs(value) > 1e-30:  # With enough bits only the rounding of the result to float64 is left.
        assert finer.error <= 2**-52 * abs(finer.value)


@settings(deadline=None, max_examples=60)
@given(
    expression=EXPRESSIONS,
    values=st.tuples(*[st.floats(0.5, 2)] * 3),
    # No error between 0 and 1e-9 is drawn, since rounding may move a corner of so small a box of inputs out of the box.
    errors=st.tuples(*[st.just(0.0) | st.floats(1e-9, 0.3)] * 3),
    seed=st.integers(0, 2**20),
)
def test_errors_of_inputs_are_carried(expression, values, errors, seed):
    symbolic, numeric = expression
    inputs = {s: Estimate(v, e, "test") for s, v, e in zip(SYMBOLS, values, errors, strict=True)}
    evaluated = evaluate(symbolic, inputs)
    corners = [[v + sign * e for v, e in zip(values, errors, strict=True)] for sign in (-0.999999, 0, 0.999999)]
    inside = np.random.default_rng(seed).uniform(-1, 1, (10, 3)) * errors + values
    for point in corners + inside.tolist():
        assert contains(evaluated, fifty_digits(numeric, point)), point


def test_how_inputs_are_known_is_said():
    assert evaluate(lam**2, {lam: 0.5}).method == "ball"
    mixed = {lam: Estimate(0.5, 1e-9, "two summation orders"), r0: Estimate(1.0, 0.0, "ball")}
    assert evaluate(lam * r0, mixed).method == "ball, inputs known by two summation orders"


H, D, R = sp.MatrixSymbol("H", n, n), sp.MatrixSymbol("D", n, n), sp.MatrixSymbol("r", n, 1)
eta = sp.Symbol("eta", positive=True)
IDENTITY = sp.Identity(n)


def positive_definite(size, seed):
    factor = np.random.default_rng(seed).standard_normal((size, size))
    return factor @ factor.T / size + np.eye(size)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_matrix_expression_against_50_digits_and_numpy(steps):
    h, d, r = positive_definite(4, 0), positive_definite(4, 1), np.arange(4.0)[:, None] - 1.3
    expression = (IDENTITY - eta / 3 * H * D**-1 * (IDENTITY - (IDENTITY - eta * D) ** K)) * R
    evaluated = evaluate(expression, {H: h, D: d, R: r, eta: 0.3, K: steps})
    assert evaluated.value.shape == (4,)
    with mpmath.workdps(DIGITS):
        one, big, block = mpmath.eye(4), mpmath.matrix(h.tolist()), mpmath.matrix(d.tolist())
        step, column = mpmath.mpf(0.3), mpmath.matrix(r.tolist())
        exact = (one - step / 3 * big * block**-1 * (one - (one - step * block) ** steps)) * column
        for i in range(4):
            assert contains(evaluated[i], exact[i])
    power = np.linalg.matrix_power(np.eye(4) - 0.3 * d, steps)
    assert np.allclose(evaluated.value, (r - 0.1 * h @ np.linalg.solve(d, r - power @ r))[:, 0], atol=1e-13, rtol=0)
    assert evaluated.error.max() < 1e-14


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**20), error=st.floats(1e-12, 1e-2))
def test_errors_of_matrices_are_carried(seed, error):
    rng = np.random.default_rng(seed)
    h, r = positive_definite(3, seed), rng.standard_normal((3, 1))
    expression, quadratic = H * (IDENTITY + H * 2) * R, R.T * H * R
    inputs = {H: Estimate(h, np.full((3, 3), error), "test"), R: Estimate(r, np.full((3, 1), error), "test")}
    vector, number = evaluate(expression, inputs), evaluate(quadratic, inputs)
    for _ in range(20):
        a, b = h + rng.uniform(-1, 1, (3, 3)) * error, r + rng.uniform(-1, 1, (3, 1)) * error
        exact = (a @ (np.eye(3) + 2 * a) @ b)[:, 0]
        assert (np.abs(exact - vector.value) <= vector.error + 1e-12).all()
        assert (np.abs((b.T @ a @ b)[0, 0] - number.value) <= number.error + 1e-12).all()
    assert vector.error.max() < 200 * error * (1 + np.abs(h).max()) ** 2 * (1 + np.abs(r).max())


def test_transpose_and_trace():
    h = np.array([[1.0, 2.0], [3.0, 5.0]])
    assert evaluate(sp.Trace(H), {H: h}).value == 6
    assert evaluate(H.T * H, {H: h}).value.tolist() == (h.T @ h).tolist()


def test_arrays_are_run_through_elementwise():
    t = sp.Symbol("t", positive=True)
    expression = (1 - lam / 2) ** t * r0**2
    times, starts = np.arange(1.0, 6.0), Estimate(np.array([[1.0], [3.0]]), np.array([[0.0], [0.1]]), "test")
    evaluated = evaluate(expression, {lam: 0.3, t: times, r0: starts})
    assert evaluated.value.shape == (2, 5)
    for i in range(2):
        for j in range(5):
            alone = evaluate(expression, {lam: 0.3, t: times[j], r0: starts[i, 0]})
            assert (evaluated.value[i, j], evaluated.error[i, j]) == (alone.value, alone.error)
    assert evaluate(expression, {lam: 5.0, t: np.array([1.0, 2.0]), r0: 1.0}).value.tolist() == [-1.5, 2.25]


def test_every_function_runs_through_arrays_as_through_numbers():
    expression = sp.Max(lam, r0, K) + sp.Min(sp.exp(-lam), r0) * sp.erf(r0) + sp.Abs(lam - r0) / sp.log(K) + sp.sqrt(r0)
    expression += sp.cosh(lam) - sp.sinh(r0) + sp.atan(K * lam) + K**3
    first, second = Estimate(np.array([0.2, 2.5, 9.0]), np.array([0.0, 0.1, 0.0]), "test"), np.array([1.5, 0.7, 3.0])
    evaluated = evaluate(expression, {lam: first, r0: second, K: 4})
    alone = [evaluate(expression, {lam: first[i], r0: second[i], K: 4}) for i in range(3)]
    assert evaluated.value.tolist() == [float(single.value) for single in alone]
    assert evaluated.error.tolist() == [float(single.error) for single in alone]
    assert evaluate(expression, {lam: first[:0], r0: second[:0], K: 4}).value.shape == (0,)


def test_a_symbol_without_a_value_is_named():
    with pytest.raises(KeyError, match=r"no value for lambda, m in the formula"):
        evaluate(r0 / sp.sqrt(m * lam), {r0: 1.0})
    with pytest.raises(KeyError, match="no value for r in the formula"):
        evaluate(H * R, {H: np.eye(2)})


@pytest.mark.parametrize(
    ("expression", "constants"),
    [
        (1 / lam, {lam: 0.0}),
        (1 / lam, {lam: Estimate(0.1, 0.2, "test")}),
        (sp.sqrt(lam), {lam: -1.0}),
        (sp.log(lam), {lam: 0.0}),
        (1 / lam, {lam: np.array([1.0, 0.0])}),
    ],
)
def test_a_result_that_is_not_finite_is_an_error_never_nan(expression, constants):
    with pytest.raises(ValueError, match=r"not finite .*: a division by zero or a root of a negative number"):
        evaluate(expression, constants)


def test_a_singular_matrix_is_an_error():
    with pytest.raises((ValueError, ZeroDivisionError)):
        evaluate(H**-1 * R, {H: np.ones((2, 2)), R: np.ones((2, 1))})


def test_what_a_formula_may_not_contain():
    with pytest.raises(TypeError, match=r"a formula may not contain Float: 0\.1"):
        # A decimal fraction is refused because its float is not the number that is written.
        evaluate(lam * 0.1, {lam: 1.0})
    with pytest.raises(TypeError, match="a formula may not contain sin"):
        evaluate(sp.sin(lam), {lam: 1.0})
    with pytest.raises(NotFinite, match="the formula is zoo whatever its symbols are: it has no value"):
        # A mutant, which is a formula made wrong on purpose, may put 1 in a symbol's place and so have no value.
        evaluate((1 / (1 - lam)).subs(lam, 1), {})
    with pytest.raises(ValueError, match="a matrix has whole powers only"):
        evaluate(H**K, {H: np.eye(2), K: 0.5})
    with pytest.raises(ValueError, match="a matrix formula takes scalar constants"):
        evaluate(eta * H * R, {eta: np.ones(3), H: np.eye(2), R: np.ones((2, 1))})


BOUND = Formula(
    (4 * r0, 4 * (1 + 2 * eta_local * n * K) * sp.sqrt(n) * r0 / (sp.sqrt(m) * lam)),
    lower=r0 / 2,
    failure=n**2 * sp.exp(-m * lam),
    premise={m: n**4 / lam**4, eta_local: lam / 1000},
)
VALUES = {n: 8, K: 2, eta_local: 0.1, r0: 3.0, lam: 0.2, m: 100}


def test_parts_and_lower_end():
    first, second = BOUND.evaluate(VALUES)
    assert first.value == 12
    assert abs(second.value - 4 * (1 + 3.2) * math.sqrt(8) * 3 / (10 * 0.2)) < 1e-13
    assert BOUND.evaluate_lower(VALUES).value == 1.5
    assert len(Formula(r0).evaluate(VALUES)) == 1


def test_failure_probability_is_the_largest_one_rounded_up():
    at = BOUND.failure_at(VALUES | {m: np.array([100.0, 50.0])})
    with mpmath.workdps(DIGITS):
        exact = 64 * mpmath.exp(-50 * mpmath.mpf(0.2))
        assert exact <= mpmath.mpf(at) <= exact * (1 + mpmath.mpf(10) ** -14)


def test_premise_gives_its_numbers_by_symbol():
    premise = BOUND.premise_at(VALUES)
    assert set(premise) == {"m", "eta_l"}
    assert abs(premise["m"] / (8**4 / 0.2**4) - 1) < 1e-14
    assert abs(premise["eta_l"] - 2e-4) < 1e-18
    assert Formula(r0).premise_at(VALUES) == {}


@settings(deadline=None, max_examples=15)
@given(value=st.floats(1e-3, 1e3), symbol=st.sampled_from([m, r0, lam]))
def test_solving_for_a_symbol_gives_what_makes_the_last_part_equal(value, symbol):
    solutions = BOUND.solve_for(symbol, value, {s: v for s, v in VALUES.items() if s is not symbol})
    assert len(solutions) == 1
    assert abs(float(BOUND.evaluate(VALUES | {symbol: solutions[0]})[1].value) / value - 1) < 1e-9


def test_solving_finds_every_positive_solution_in_order_and_none_where_there_is_none():
    assert Formula((r0 - 1) * (r0 - 3)).solve_for(r0, 0.0, {}) == [1.0, 3.0]
    assert Formula(r0**2 + 2).solve_for(r0, 1.0, {}) == []


def test_mutants_change_every_part_and_the_lower_end():
    doubled = BOUND.mutated(lambda part: 2 * part)
    assert doubled.evaluate(VALUES)[0].value == 24
    assert doubled.evaluate_lower(VALUES).value == 3
    assert doubled.failure == BOUND.failure
    assert Formula(r0).mutated(lambda part: part + 1).lower is None


def test_latex_separates_parts():
    assert Formula(r0**2).latex() == "r_{0}^{2}"
    first, second = BOUND.latex().split(r" ;\quad ")
    assert first == "4 r_{0}"
    assert r"\sqrt{m}" in second
    assert r"\lambda" in second


def test_failure_symbols_are_evaluated_in_balls():
    assert Formula(r0, failure=delta).failure_at({delta: 0.1}) == 0.1


@pytest.mark.parametrize("exponent", [1, 2, 3, 4])
def test_a_power_of_what_may_be_0_is_finite(exponent):
    x = sp.Symbol("x")
    evaluated = evaluate(x**exponent, {x: Estimate(0.0, 0.5, "exact")})
    assert evaluated.lo <= -(0.5**exponent) * (exponent % 2) and 0.5**exponent <= evaluated.hi < 0.5**exponent * 1.01


def test_an_expression_may_be_made_when_it_is_first_asked_for():
    a, b, _ = SYMBOLS
    asked = []
    late = Formula(lambda: asked.append(1) or (a + b, a * b))
    assert not asked
    assert late.parts == (a + b, a * b) and late.mutated(lambda part: 2 * part).parts == (2 * a + 2 * b, 2 * a * b)
    assert asked == [1] and late == Formula((a + b, a * b))
    with pytest.raises(AttributeError, match="Formula has no 'expresion'"):
        late.expresion  # noqa: B018


def test_parts_share_the_matrices_they_have_in_common(monkeypatch):
    inversions = []
    monkeypatch.setattr("bounds.formula._inverse", lambda matrix: inversions.append(matrix) or matrix.inv())
    h, k = (sp.MatrixSymbol(name, 3, 3) for name in "hk")
    formula = Formula((h**-1 + sp.Identity(3), h**-1 * k))
    for scale in (1.0, 2.0):  # Cached parts for the first constants must not be used for the second.
        values = {h: scale * np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]]), k: np.ones((3, 3))}
        parts = formula.evaluate(values)
        assert [part.value.tolist() for part in parts] == [evaluate(e, values).value.tolist() for e in formula.parts]
        np.testing.assert_allclose(parts[0].value, np.linalg.inv(values[h]) + np.eye(3), rtol=1e-12)
    assert len(inversions) == 2 * (1 + 2)
