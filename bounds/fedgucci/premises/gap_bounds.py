"""Bounds on the gap between networks of a cube, which several statements have on their right sides."""

import sympy as sp

from bounds.fedgucci.premises.cube_symbols import MORE_OUTPUTS, SPREAD, C, K, b, d_anc, h, side
from bounds.symbols import delta

SURE = SPREAD / 2 * (side * sp.sqrt(C * h) / 2 + d_anc / 2)

LOG = sp.log(12 * C * h / delta)
AT_TRUE_SIDE = sp.sqrt(2) / 2 * sp.sqrt(h) * b * (sp.sqrt(C) * side**2 + side * d_anc) * LOG  # (32)

ROWS = side * b * sp.sqrt(h * sp.log(12 * h / delta) / 2)  # (1/K) sum_i E_x |(U_i - mean U) x|^2 is at most its square
TAIL = (MORE_OUTPUTS + sp.sqrt(sp.log(sp.Rational(21, 10) / delta) / 6)) / sp.sqrt(K)
MEAN_GAP = ROWS * (d_anc / 2 + side * TAIL)
