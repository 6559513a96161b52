"""Kernel and labels as matrices of a size that formulas use beside n, a number in them."""

import sympy as sp

size = sp.Symbol("s", positive=True)  # of the matrices: n, which the remainder uses as a number
H = sp.MatrixSymbol("H", size, size)
y = sp.MatrixSymbol("y", size, 1)
