"""The coefficients on the samples' features that training in the kernel regime ends at, and how far they move it."""

from bounds.fl_ntk.terms.round_map import IDENTITY, ROUND_MAP, H, start
from bounds.symbols import T

COEFFICIENTS = H**-1 * (IDENTITY - ROUND_MAP**T) * start  # c_T, start being y - y(0)
MOVEMENT = COEFFICIENTS.T * H * COEFFICIENTS
