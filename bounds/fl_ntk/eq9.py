"""Eq (9): one round contracts the squared residual by 1 - rho lambda/2."""

from bounds import FL_NTK, Claim, Form, Kind, Source, Statement
from bounds.fl_ntk.families.paper_steps import NECESSITY, PAPER_STEPS, PREMISE, round_constants
from bounds.fl_ntk.terms.round_map import STEP, next_square
from bounds.mutants import power, replaced
from bounds.symbols import K, eta_global, lam, r_t

STATEMENTS = (
    Statement(
        id="fl-ntk/Eq9",
        title="One round contracts the residual",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "Theorem B.3, Eq (9)",
            note="the induction step of Eq (7). The printed constants prove 1.95 rho lambda in place of the claimed "
            "rho lambda/2, and along the bottom eigenvector of H(0) the measured contraction is 2 rho lambda. Where "
            "eta_l K is not small the equation is false (X.5). The random events are a hypothesis, for the given R",
        ),
        hypotheses=PREMISE,
        forms={Form.STATED: Claim((1 - STEP * lam / 2) * r_t**2)},
        constants=round_constants,
        measure=next_square,
        left_formula="|y - y(t+1)|^2",
        says_left="|y - y(t+1)|^2 of the simulated run, every round",
        families=(PAPER_STEPS,),
        mutants=(
            replaced(lam, 5 * lam, "lambda times 5"),
            replaced(K, 5 * K, "five times the local steps"),
            power(eta_global, -1),
        ),
        necessity=NECESSITY,
        uses=("fl-ntk/Eq8",),
    ),
)
