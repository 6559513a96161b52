"""Weyl's inequality: no eigenvalue of H(0) is farther from that of H_inf than the norm of H(0) - H_inf."""

from dataclasses import replace

import sympy as sp

from bounds import BEYOND, Claim, Form, Kind, Source, Statement, with_own
from bounds.fl_ntk.families.few_points import ALIGNED_POINTS
from bounds.fl_ntk.premises import at_most
from bounds.initial_network import initial_network_families
from bounds.mutants import Mutant, replaced
from ntkfl import Estimate, gram
from ntkfl.balls import ball_matrix, enclosure, precision, symmetric_eigenvalues


def eigenvalues(h: Estimate) -> Estimate:
    """Eigenvalues of a symmetric matrix, ascending, (n,), enclosed by balls; no more rigorous than its entries."""
    with precision():
        spectrum = enclosure(symmetric_eigenvalues(ball_matrix(h.value, h.error)))
    return replace(spectrum, rigour=max(spectrum.rigour, h.rigour))


top, bottom = sp.symbols("d_max d_min", real=True)


def _change(case):
    return case.initial_gram - gram.infinite_estimate(case.problem.x)


STATEMENTS = (
    Statement(
        id="fl-ntk/Weyl",
        title="No eigenvalue of H(0) is further from that of H_inf than |H(0) - H_inf|_2",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "Weyl's inequality, docs/proofs/finite_width.md#exact-means-at-the-start",
            note="|lambda_k(H(0)) - lambda_k(H_inf)| <= |H(0) - H_inf|_2 for every k, both spectra in ascending order. "
            "So one bound on the difference of the matrices, such as C.6, bounds lambda, mu and all eigenvalues "
            "between. The inequality is an equality for one sample, and nearly an equality where H(0), H_inf and their "
            "difference have the same top eigenvector",
        ),
        hypotheses=(at_most(150),),
        forms={Form.STATED: Claim(sp.Max(top, -bottom))},
        constants=lambda case: {
            top: gram.largest_eigenvalue(_change(case)),
            bottom: gram.smallest_eigenvalue(_change(case)),
        },
        measure=lambda case: abs(eigenvalues(case.initial_gram) - eigenvalues(gram.infinite_estimate(case.problem.x))),
        symbols={top: "largest eigenvalue of H(0) - H_inf", bottom: "smallest eigenvalue of H(0) - H_inf"},
        left_formula="|lambda_k(H(0)) - lambda_k(H_inf)|",
        says_left="|lambda_k(H(0)) - lambda_k(H_inf)| for every k, both spectra in balls",
        families=with_own(initial_network_families, ALIGNED_POINTS),
        mutants=(
            replaced(top, bottom, "the smallest eigenvalue of the difference alone"),
            replaced(-bottom, top, "the largest eigenvalue of the difference alone"),
            Mutant("the square of the norm", lambda expression: expression**2),
        ),
        uses=("fl-ntk/C.6", "fl-ntk/H-inf"),
    ),
)
