"""Eq (19): the size of the outputs at initialisation, for weights of any standard deviation."""

from dataclasses import replace

import sympy as sp

from bounds import FL_NTK, Change, Claim, Form, Kind, Options, Source, Statement
from bounds.fl_ntk.premises import UNIT_ROWS
from bounds.fl_ntk.terms.initial_outputs import initial_outputs, network_constants
from bounds.initial_network import initial_network_families, one_point
from bounds.mutants import power, replaced
from bounds.symbols import delta, m, n, sigma


def _families(options: Options) -> tuple:
    """The default families, and on fewer seeds the same with sigma = .1, since theorem C.11 needs a small sigma."""
    if options.sigma is not None:
        return initial_network_families(options)
    small = replace(options, sigma=0.1, trials=options.trials or 60)
    renamed = tuple(
        replace(draw, name=f"{draw.base.name} (sigma=.1), at initialisation")
        for draw in initial_network_families(small)
    )
    return initial_network_families(options) + renamed


STATEMENTS = (
    Statement(
        id="fl-ntk/Eq19",
        title="Size of the outputs at initialisation",
        kind=Kind.PROBABILITY,
        source=Source(
            FL_NTK,
            "Eq (19)",
            note="the bound rests on E_1 and E_2 of Lemma B.8 scaled by sigma. The mean of |y(0)|^2 is sigma^2 n/2, "
            "thousands of times below the bound",
        ),
        hypotheses=(UNIT_ROWS,),
        forms={
            Form.STATED: Claim(2 * n * sigma**2 * sp.log(2 * m * n / delta) * sp.log(4 * n / delta) ** 2, failure=delta)
        },
        constants=lambda case: network_constants(case) | {sigma: case.sigma},
        measure=lambda case: initial_outputs(case).norm().squared(),
        left_formula="|y(0)|^2",
        says_left="|y(0)|^2 of the drawn network",
        families=_families,
        necessity={"unit-rows": lambda: one_point(length=1000.0)},
        mutants=(
            power(n, -3),
            replaced(n * sigma**2, sigma**2 / m, "1/m for n", Change.FACTOR),
        ),
        uses=("fl-ntk/B.8",),
    ),
)
