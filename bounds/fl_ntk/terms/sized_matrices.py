"""Kernel, round map and labels as matrices of a size that formulas use beside n, a number in them."""

import sympy as sp

from bounds.fl_ntk.terms import round_map
from bounds.symbols import n

size = sp.Symbol("s", positive=True)  # of the matrices: n, which the remainder uses as a number
y = sp.MatrixSymbol("y", size, 1)
H, D, IDENTITY, ROUND_MAP = (
    part.subs(n, size) for part in (round_map.H, round_map.D, round_map.IDENTITY, round_map.ROUND_MAP)
)
