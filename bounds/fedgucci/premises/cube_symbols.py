"""Symbols, expressions and bounds that statements about networks drawn in a cube share."""

import sympy as sp

from bounds.symbols import delta

h, l, S, K, N, C, L = sp.symbols("h l S K N C L", positive=True)  # noqa: E741 (the paper's names)
side, d_eps, d_anc, b, s = sp.symbols("d d_epsilon d_anc b s", positive=True)

SYMBOLS = {
    h: "number of hidden units",
    l: "number of features of an input",
    S: "number of parameters, h l + C h",
    K: "number of networks",
    N: "ceil(sqrt(C h)), points of a net on [0, 1]",
    C: "number of outputs",
    L: "Lipschitz constant of the loss in the l2 norm of the outputs: 1, sqrt(2) for cross-entropy, 2R for squared",
    side: "side of the cube in which the networks are drawn",
    d_eps: "S-th root of the volume of the networks with a loss below epsilon",
    d_anc: "|V_anc|, the largest singular value of the anchor's readout (C, h); |v_anc|_2 for one output",
    b: "largest |x|_2",
    s: "root of the largest eigenvalue of E x x^T; b/sqrt(l + 2) for x uniform in the ball",
}

SPREAD = side * s * sp.sqrt(h * l)  # E1, a sure bound on E_x |(U_1 - U_2) x|
# the contribution of the outputs beyond the first to the tail of the readout's term
MORE_OUTPUTS = sp.sqrt(C - 1) / sp.sqrt(12)
VECTOR_TAIL = (
    "For C outputs (J_C): if the entries of Y_x in R^C are independent and each sub-Gaussian with proxy sigma(x)^2, Q "
    "= E_x sigma(x), then E_x |Y_x|_2 <= Q (sqrt(C-1) + sqrt(2 log(2/p))) except with probability p. For C = 1 this is "
    "Jensen for tails; for C >= 2, by Cauchy-Schwarz under the law of x reweighted by sigma/Q, E_x |Y_x| is at most Q "
    "times the root of a mean of sums of C squares. Each of these sums has E exp(t .) at most (1-2t)^(-C/2), "
    "the value for chi^2_C; so the mean is at most C + 2 sqrt(C y) + 2y, y = log(1/p), and 2(C-1) >= C."
)


SURE = SPREAD / 2 * (side * sp.sqrt(C * h) / 2 + d_anc / 2)

LOG = sp.log(12 * C * h / delta)
AT_TRUE_SIDE = sp.sqrt(2) / 2 * sp.sqrt(h) * b * (sp.sqrt(C) * side**2 + side * d_anc) * LOG  # Eq (32)

# the square of ROWS bounds (1/K) sum_i E_x |(U_i - mean U) x|^2
ROWS = side * b * sp.sqrt(h * sp.log(12 * h / delta) / 2)
TAIL = (MORE_OUTPUTS + sp.sqrt(sp.log(sp.Rational(21, 10) / delta) / 6)) / sp.sqrt(K)
MEAN_GAP = ROWS * (d_anc / 2 + side * TAIL)


def with_loss(bound: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """A bound on the gap of the outputs, and the bound that it gives on the barrier of a loss."""
    return bound, L * bound
