"""The coefficients on the samples' features that training in the kernel regime ends at, and how far they move it."""

import sympy as sp

from bounds.fl_ntk.terms.round_map import ROUND_MAP, H
from bounds.symbols import T, n

start = sp.MatrixSymbol("r_0", n, 1)  # y - y(0)
COEFFICIENTS = H**-1 * (sp.Identity(n) - ROUND_MAP**T) * start  # c_T
MOVEMENT = COEFFICIENTS.T * H * COEFFICIENTS
