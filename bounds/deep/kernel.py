"""The limit kernels of deep networks in closed form."""

from functools import cache

import sympy as sp

from bounds.deep.cases.deep_rows import DeepRows, rows_families
from bounds.deep.recursion import Recursion, bias, first, inner, second
from bounds.hypothesis import Hypothesis, Limit
from bounds.mutants import scaled
from bounds.statement import BEYOND, Change, Claim, Form, Kind, Mutant, Source, Statement
from ntkfl.estimate import Estimate

PAIRS = (("relu", 2), ("relu", 3), ("relu", 5), ("erf", 2), ("erf", 4), ("gelu", 2), ("gelu", 3))
ALONE = (("relu", 5), ("erf", 3), ("gelu", 2))
LEAST = 1e-7  # of a sine; balls of 128 bits still tell its arccos

CASES = tuple((*each, False) for each in PAIRS) + tuple((*each, True) for each in ALONE)


@cache
def _formulas() -> tuple[sp.Expr, ...]:
    return tuple(Recursion(*each).expression() for each in CASES)


def _wrong(name: str, sort: Change, layers: int = 0, **changed) -> Mutant:
    """Every formula with some field of the recursion changed, or of so many layers more."""

    def change(expression: sp.Expr) -> sp.Expr:
        activation, depth, one = CASES[_formulas().index(expression)]
        return Recursion(activation, depth + layers, one, **changed).expression()

    return Mutant(name, change, sort)


def _constants(case: DeepRows) -> dict:
    g, (i, j) = case.products, case.pairs
    squares = {first: g[i, i], second: g[j, j], inner: g[i, j]}
    return squares | {bias: case.bias}


def _measure(case: DeepRows) -> tuple[Estimate, ...]:
    i, j = case.pairs
    apart = tuple(case.kernel(depth, activation)[:, i, j] for activation, depth in PAIRS)
    return apart + tuple(case.kernel(depth, activation)[:, i, i] for activation, depth in ALONE)


UNPARALLEL = Hypothesis(
    "unparallel",
    f"the sine of the angle of any two rows is at least {LEAST:g}",
    Limit("the least sine", lambda case: case.least_sine, at_least=LEAST),
    free=True,
)

STATEMENTS = (
    Statement(
        id="deep/kernel",
        title="The limit kernels of deep networks in closed form",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/finite_width.md#deep-networks",
            note="Theta_1 = Sigma_1 = x.z + beta^2, Sigma_{l+1} = c E[phi(u) phi(v)] + beta^2 with Gaussian u, v of "
            "covariance Sigma_l, Theta_{l+1} = Sigma_{l+1} + c Theta_l E[phi'(u) phi'(v)]; c = 2 from ReLU layer to "
            "ReLU layer, 1 for erf, GELU and before the readout, which has no bias. ReLU's moments are the arc-cosine "
            "kernels, erf's an arcsine, GELU's by Stein's identity. That finite networks have this limit is tested by "
            "their mean kernels (tests/ntkfl/test_gram_deep.py)",
        ),
        hypotheses=(UNPARALLEL,),
        forms={Form.NEW: Claim(lambda: _formulas())},
        constants=_constants,
        measure=_measure,
        symbols={
            first: "|x_i|^2",
            second: "|x_j|^2",
            inner: "x_i.x_j",
            bias: "factor of the biases, 0 without them",
        },
        says_left="by the library's gram.deep, with and without its error; left 1 to 7: the entries of pairs of "
        "samples for ReLU of 2, 3 and 5 layers of weights, erf of 2 and 4, GELU of 2 and 3; left 8 to 10: of a sample "
        "with itself for ReLU of 5, erf of 3, GELU of 2",
        families=rows_families,
        mutants=(
            scaled(sp.Rational(1_000_001, 1_000_000)),
            _wrong("no factor of 2 between ReLU layers", Change.FACTOR, he=1),
            _wrong("the factor of 2 before the readout too", Change.FACTOR, readout_gain=2),
            _wrong("a layer too many", Change.INDEX, layers=1),
            _wrong("without the readout's part", Change.OTHER, with_readout=False),
            _wrong("arcsin for arccos", Change.OTHER, arc=sp.asin),
            _wrong("only the last layer trained", Change.FACTOR, slope_of=0),
            _wrong("slopes twice as steep", Change.CONSTANT, slope_of=2),
            _wrong("biases that are not trained", Change.OTHER, trained_bias=False),
            _wrong("a bias of the readout", Change.OTHER, biased_readout=True),
            _wrong("1 + a for erf's 1 + 2 a", Change.CONSTANT, size=1),
            _wrong("GELU's even part subtracted", Change.SIGN, curved=-1),
        ),
        uses=("fl-ntk/H-inf",),
    ),
)
