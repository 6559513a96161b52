"""How many neurons sit near a kink at the start, uniformly in the distance."""

import sympy as sp

from bounds.symbols import R, m, n, sigma

CROWDING = 0.01  # its value in the statements
crowding = sp.Symbol("delta_1", positive=True)
NEAR = sp.sqrt(2 / sp.pi) * R / sigma + sp.sqrt(sp.log(2 * n / crowding) / (2 * m))  # Eq (11), uniform in R
