"""Formulas in sympy, and their evaluation in ball arithmetic: every value is a rigorous enclosure.

A ball is an interval given by a midpoint and a radius (python-flint).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import add, mul
from types import FunctionType
from typing import Any, Self

import flint
import numpy as np
import sympy as sp
from flint import arb, arb_mat

from ntkfl.balls import PRECISION, NotFinite, ball, ball_matrix, enclosure, precision
from ntkfl.estimate import Estimate, Rigour

COMPILED = 4096  # number of expressions whose compiled evaluation is kept
# Maps each symbol of a premise to a field of the setup and a sign. The sign is 1 if the premise is a least value of the
# field, and -1 if it is a largest value.
PREMISES = {"m": ("width", 1), "eta_l": ("eta_local", -1)}
LARGEST_PRODUCT = 64  # the largest exponent for which a power of a ball that contains 0 is computed as a product

Constants = Mapping[Any, Any]  # sympy symbol -> float, array or Estimate


@dataclass(frozen=True)
class Formula:
    """The right side of a statement.

    Args:
        expression: a sympy expression, or a matrix expression in MatrixSymbols, of the statement's symbols; a tuple of
            expressions where the statement has parts; or a function without arguments that makes them, called at the
            first use.
        lower: the lower end, for a two-sided statement.
        failure: an expression for the probability with which the statement may fail; None: it may never fail.
        premise: requirements of the theorem that no run can meet: a mapping from a symbol, such as m for the width, to
        the required size.
        trivial: a bound that holds without the theorem; the theorem says nothing if its own bound is larger in every
            case.
    """

    expression: Any
    lower: Any = None
    failure: sp.Expr | None = None
    premise: Mapping[sp.Symbol, sp.Expr] | None = None
    trivial: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.expression, FunctionType):
            self.__dict__["_make"] = self.__dict__.pop("expression")

    def __getattr__(self, name: str) -> Any:
        if name != "expression" or "_make" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        made = self.__dict__["expression"] = self.__dict__["_make"]()
        return made

    @property
    def parts(self) -> tuple:
        """The expressions of the parts; a single expression where the statement has no parts."""
        return self.expression if isinstance(self.expression, tuple) else (self.expression,)

    def evaluate(self, constants: Constants, *, bits: int = PRECISION) -> tuple[Estimate, ...]:
        """The enclosure of each part, in its shape; arrays for scalar symbols are evaluated elementwise.

        Args:
            constants: a number, array or `Estimate` for each symbol.
            bits: precision of the balls; default `PRECISION`.

        Raises:
            KeyError: a symbol of the expression has no value. ValueError: the result is not finite.
        """
        matrices: dict[Any, arb_mat] = {}
        # evaluate each distinct expression once
        once = {part: _evaluated(part, constants, bits, matrices) for part in dict.fromkeys(self.parts)}
        return tuple(once[part] for part in self.parts)

    def evaluate_lower(self, constants: Constants) -> Estimate:
        """The enclosure, in its shape, of the lower end of a two-sided statement.

        Args:
            constants: a number, array or `Estimate` for each symbol.
        """
        return evaluate(self.lower, constants)

    def failure_at(self, constants: Constants) -> float:
        """The largest failure probability that the form allows on a case.

        Args:
            constants: a number, array or `Estimate` for each symbol.
        """
        return float(np.max(evaluate(self.failure, constants).hi))

    def premise_at(self, constants: Constants) -> dict[str, float]:
        """Maps each symbol of the premise to the size that the premise requires on a case.

        Args:
            constants: a number, array or `Estimate` for each symbol.
        """
        return {str(s): float(evaluate(needed, constants).value.max()) for s, needed in (self.premise or {}).items()}

    def lacking(self, case: Any, constants: Constants) -> dict[str, float]:
        """Maps each symbol whose required size a case does not have to this size.

        An infinitely wide case has every width.

        Args:
            case: a case of the statement. A case without a network's `weights` is infinitely wide; the result is then
                empty.
            constants: a number, array or `Estimate` for each symbol.
        """
        if not self.premise or getattr(case, "weights", None) is None:
            return {}
        setup, lacking = case.setup, {}
        for symbol, needed in self.premise_at(constants).items():
            size, sign = PREMISES[symbol]
            if not sign * getattr(setup, size) >= sign * needed:
                lacking[symbol] = needed
        return lacking

    def latex(self) -> str:
        """The formula as LaTeX; parts are separated by a semicolon."""
        return r" ;\quad ".join(sp.latex(part) for part in self.parts)

    def solve_for(self, symbol: sp.Symbol, value: float, constants: Constants) -> list[float]:
        """The positive values of `symbol` at which the last part of the formula equals `value`.

        Args:
            symbol: a symbol of the formula.
            value: the value of its last part.
            constants: numbers or enclosures of the other symbols.
        """
        expression = self.parts[-1]
        numbers = {s: float(_estimate(constants[s]).value) for s in expression.free_symbols - {symbol}}
        unknown = sp.Symbol("unknown", positive=True)
        equation = expression.subs(numbers).subs(symbol, unknown) - value
        return sorted(float(root) for root in sp.solve(sp.nsimplify(equation), unknown) if root.is_real)

    def mutated(self, change: Callable[[Any], Any]) -> Self:
        """The formula of a mutant: every part and the lower end are changed by the mutant's function.

        Args:
            change: maps a sympy expression to the changed expression.
        """
        lower = None if self.lower is None else change(self.lower)
        return replace(self, expression=tuple(change(part) for part in self.parts), lower=lower)


def evaluate(expression: Any, constants: Constants, *, bits: int = PRECISION) -> Estimate:
    """Enclosure of a sympy (matrix) expression, in its shape; see `Formula.evaluate`.

    Args:
        expression: in sympy.
        constants: a number, array or `Estimate` for each of its symbols.
        bits: precision of the balls; default 128.

    Raises:
        KeyError: a symbol has no value. ValueError: arrays for a matrix formula.
    """
    return _evaluated(expression, constants, bits, {})


def _evaluated(expression: Any, constants: Constants, bits: int, made: dict[Any, arb_mat]) -> Estimate:
    """The enclosure of an expression. `made` keeps the matrices that other calls with the same constants have made."""
    compiled = _compiled(sp.sympify(expression))
    try:
        values, matrices = ([_known(constants[s]) for s in part] for part in (compiled.scalars, compiled.matrices))
    except KeyError:
        missing = sorted(str(s) for s in compiled.scalars + compiled.matrices if s not in constants)
        if not missing:
            raise
        raise KeyError(f"no value for {', '.join(missing)} in the formula {expression}") from None
    shape = np.broadcast_shapes(*(np.shape(value) for value, *_ in values if not isinstance(value, float)))
    method = _method({known_by for _, _, known_by, _ in values + matrices})
    rigour = max((known for *_, known in values + matrices), default=Rigour.EXACT)
    rigour = max(rigour, Rigour.ENCLOSED)  # a ball is at best as rigorous as its inputs
    with precision(bits):
        if shape and matrices:
            raise ValueError("a matrix formula takes scalar constants, one case at a time")
        for symbol, (v, e, *_) in zip(compiled.matrices, matrices, strict=True):
            if symbol not in made:
                made[symbol] = ball_matrix(v, e)
        balls = compiled.value(
            _Environment([ball(v, e) if isinstance(v, float) else _BALLS(v, e) for v, e, *_ in values], made)
        )
        if not shape:
            result = enclosure(balls)
            value, error = (_column(part) for part in (result.value, result.error))
            return Estimate(value, error, method, rigour)
        results = np.broadcast_to(np.asarray(balls, object), shape).ravel().tolist()
        result = enclosure(results) if results else Estimate(np.empty(0), np.empty(0), "ball", Rigour.ENCLOSED)
        return Estimate(result.value.reshape(shape), result.error.reshape(shape), method, rigour)


def _method(inputs: set[str]) -> str:
    """The method of an estimate. It names the methods of the inputs, since a ball is only as reliable as its inputs."""
    others = sorted(inputs - {"exact", "ball"})
    return f"ball, inputs known by {', '.join(others)}" if others else "ball"


def _estimate(value: Any) -> Estimate:
    return value if isinstance(value, Estimate) else Estimate.exact(value)


def _known(value: Any) -> tuple[Any, Any, str, Rigour]:
    """The value, error, method and rigour of an input.

    For a single number, the usual case, value and error are floats.
    """
    if (isinstance(value, float) and value == value) or (isinstance(value, int) and abs(value) <= 2**53):
        return float(value), 0.0, "exact", Rigour.EXACT
    estimate = _estimate(value)
    if estimate.value.ndim:
        return estimate.value, estimate.error, estimate.method, estimate.rigour
    return float(estimate.value), float(estimate.error), estimate.method, estimate.rigour


def _column(part: np.ndarray) -> np.ndarray:
    """A matrix of one column as a vector."""
    return part[:, 0] if part.ndim == 2 and part.shape[1] == 1 else part


def _elementwise(function: Callable[..., arb], arguments: int = 1) -> Callable[..., Any]:
    """A function of balls that also takes object arrays of balls."""
    return np.frompyfunc(function, arguments, 1)


_BALLS = _elementwise(ball, 2)
_ROOTS = _elementwise(arb.sqrt)
_HALF = arb(0.5)
# these functions have the same names in sympy and in flint
_SAME_NAMES = ("exp", "log", "erf", "cosh", "sinh", "atan", "asin", "acos")
_FUNCTIONS: dict[type, Callable[..., Any]] = {
    **{getattr(sp, name): _elementwise(getattr(arb, name)) for name in _SAME_NAMES},
    sp.Abs: _elementwise(abs),
    sp.Max: lambda *balls: reduce(_elementwise(arb.max, 2), balls),
    sp.Min: lambda *balls: reduce(_elementwise(arb.min, 2), balls),
}


@dataclass(frozen=True)
class _Environment:
    """Balls of the scalar symbols, in order, and matrices of matrix symbols and of computed matrix expressions."""

    scalars: list
    matrices: dict[Any, Any]


Value = Callable[[_Environment, list], Any]  # computes the next value, a ball, an array or a matrix of balls


@dataclass(frozen=True)
class _Compiled:
    """The symbols of an expression, and the steps that compute the values of its parts.

    The last value is the value of the whole expression.
    """

    scalars: tuple
    matrices: tuple
    steps: tuple[Value, ...]

    def value(self, environment: _Environment) -> Any:
        """The value of the expression; a subexpression that occurs in several places is computed once."""
        values: list[Any] = []
        for step in self.steps:
            values.append(step(environment, values))
        return values[-1]


@lru_cache(maxsize=COMPILED)
def _compiled(expression: Any) -> _Compiled:
    places: dict[Any, int] = {}  # positions of the scalar symbols
    numbers: dict[Any, int] = {}  # positions of all nodes
    steps: list[Value] = []

    def number(node: Any) -> int:
        if node not in numbers:
            if node.is_Symbol:
                places.setdefault(node, len(places))
            steps.append(_step(node, [number(argument) for argument in _arguments(node)], places))
            numbers[node] = len(steps) - 1
        return numbers[node]

    number(expression)
    return _Compiled(tuple(places), tuple(node for node in numbers if isinstance(node, sp.MatrixSymbol)), tuple(steps))


def _arguments(node: Any) -> tuple:
    """The arguments from which the value of a sympy node is computed."""
    if isinstance(node, sp.MatrixSymbol | sp.Identity):
        return ()
    return node.args[:1] if _is_root(node) else node.args


def _is_root(node: Any) -> bool:
    return node.is_Pow and node.exp == sp.S.Half


def _step(node: Any, arguments: list[int], places: Mapping[Any, int]) -> Value:
    """A function that computes the value of a sympy node.

    `arguments` are the positions of the values of its arguments.
    """
    if isinstance(node, sp.MatrixSymbol):
        return lambda environment, values: environment.matrices[node]
    if node.is_Symbol:
        place = places[node]
        return lambda environment, values: environment.scalars[place]
    if node.is_Integer:
        whole = arb(int(node))
        return lambda environment, values: whole
    if node.is_Rational:
        exact = flint.fmpq(int(node.p), int(node.q))
        return lambda environment, values: arb(exact)  # rounded to the current precision
    if node is sp.pi:
        return lambda environment, values: arb.pi()
    if node is sp.E:
        return lambda environment, values: arb.const_e()
    if node in (sp.zoo, sp.nan, sp.oo, -sp.oo):
        raise NotFinite(f"the formula is {node} whatever its symbols are: it has no value")
    if isinstance(node, sp.Identity):
        return lambda environment, values: _Identity()
    combined = _ROOTS if _is_root(node) else _combined(node)
    if not node.is_Matrix:
        return lambda environment, values: combined(*[values[argument] for argument in arguments])

    def matrix(environment: _Environment, values: list) -> Any:
        if node not in environment.matrices:
            environment.matrices[node] = combined(*[values[argument] for argument in arguments])
        return environment.matrices[node]

    return matrix


def _combined(node: Any) -> Callable[..., Any]:
    """A function that computes the value of a sympy node from the values of its arguments."""
    if isinstance(node, sp.Transpose):
        return arb_mat.transpose
    if isinstance(node, sp.Inverse):
        return lambda matrix, exponent: _inverse(matrix)
    if isinstance(node, sp.Trace):
        return arb_mat.trace
    if isinstance(node, sp.MatAdd):
        return lambda *terms: _matrix_sum(list(terms))
    if node.is_Add:
        return lambda *terms: reduce(add, terms)
    if isinstance(node, sp.MatMul):
        return lambda *factors: reduce(_product, factors)
    if node.is_Mul:
        return lambda *factors: reduce(mul, factors)
    if isinstance(node, sp.MatPow):
        return lambda matrix, exponent: _matrix_power(matrix, exponent, node)
    if node.is_Pow:
        return _POWERS
    if type(node) in _FUNCTIONS:
        return _FUNCTIONS[type(node)]
    raise TypeError(f"a formula may not contain {type(node).__name__}: {node}")


def _matrix_power(matrix: arb_mat, exponent: arb, node: Any) -> arb_mat:
    whole = exponent.unique_fmpz() if exponent.is_exact() else None
    if whole is None:
        raise ValueError(f"a matrix has whole powers only; the exponent of {node} is {exponent}")
    return matrix ** int(whole)


def _inverse(matrix: arb_mat) -> arb_mat:
    try:
        return matrix.inv()
    except ZeroDivisionError as error:
        raise NotFinite("a matrix of the formula may be singular within its error: it has no inverse") from error


def _power(base: arb, exponent: arb) -> arb:
    if exponent == _HALF:
        return base.sqrt()
    whole = exponent.unique_fmpz() if exponent.is_exact() and exponent.is_integer() else None
    if whole is None or abs(whole) >= 2**31:
        return base**exponent
    if 0 < whole <= LARGEST_PRODUCT and base.contains(0):
        return reduce(mul, [base] * int(whole))  # flint's power of a ball around 0 is not finite
    return base ** int(whole)


_POWERS = _elementwise(_power, 2)


class _Identity:
    """`factor` times an identity matrix, which takes its size from the matrix to which it is added."""

    def __init__(self, factor: arb | int = 1):
        self.factor = factor


def _product(left: Any, right: Any) -> Any:
    if isinstance(right, _Identity):
        left, right = right, left
    if isinstance(left, _Identity):
        return _Identity(left.factor * right) if isinstance(right, arb) else right * left.factor
    return mul(left, right)


def _matrix_sum(terms: list) -> arb_mat:
    total = reduce(add, [term for term in terms if not isinstance(term, _Identity)])
    for identity in (term for term in terms if isinstance(term, _Identity)):
        size = total.nrows()
        total = total + arb_mat(
            [[arb(identity.factor) if i == j else arb(0) for j in range(size)] for i in range(size)]
        )
    return total
