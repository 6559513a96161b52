"""X.2: the round map is not symmetric, but its spectrum is real for every local step."""

import sympy as sp

from bounds import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.cases.kernel_case import KernelCase, kernel_families
from bounds.cases.run_values import run_values
from bounds.fl_ntk.premises import POSITIVE_LIMIT, at_most
from bounds.mutants import power, replaced, sign_flipped, without
from bounds.symbols import N, eta_global
from ntkfl.estimate import Estimate

nu = sp.Symbol("nu", real=True)


def _measure(case: KernelCase) -> tuple[Estimate, Estimate]:
    spectrum = case.regime.of(lambda regime, _: regime.spectrum[::-1], size=case.map_size)
    return case.map_eigenvalues, spectrum


STATEMENTS = (
    Statement(
        id="fl-ntk/X.2",
        title="The round map has a real spectrum",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#spectrum-and-stability",
            note="H = L L^T makes H P similar to the symmetric L^T P L, for any eta_l, also where P is indefinite",
        ),
        hypotheses=(at_most(150), POSITIVE_LIMIT),
        forms={Form.NEW: Claim((1 - eta_global / N * nu,) * 2)},
        constants=lambda case: run_values(case, eta_global, N) | {nu: case.nu},
        measure=_measure,
        symbols={nu: "eigenvalues of L^T P L, H = L L^T"},
        left_formula=("lambda_i(M)",) * 2,
        says_left="left 1: the eigenvalues of the kernel regime's round map by a general solver, with imaginary parts "
        "counted as error; left 2: the spectrum that the kernel regime gives",
        families=lambda options: kernel_families(options, reach=4),
        mutants=(
            power(eta_global, sp.Rational(1, 2)),
            without(N),
            sign_flipped(nu, "nu"),
            replaced(nu, sp.Rational(1_000_001, 1_000_000) * nu, "nu times 1 + 1e-6", Change.CONSTANT),
        ),
        uses=("fl-ntk/X.1",),
    ),
)
