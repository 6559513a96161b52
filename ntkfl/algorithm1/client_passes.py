"""The elementwise work between the matrix products of a local step of `client_threads`, compiled to single passes."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ntkfl.compiled_once import compiled_once, machine_code


class Passes(NamedTuple):
    """Compiled functions; they release the interpreter. Arrays are (chunks, samples, lanes), signs (chunks, lanes).

    pulled(pull, signs, on, anew, out): adds pull_i s_r to `out`, or to 0 if `anew`, where r is active on sample i.
    look(z, start, signs, frozen, on): adds `start` to z if `start` has chunks; returns the sums over r of s_r
    relu(z_ir), (samples,). Unless `frozen`, sets the patterns `on` to z >= 0. A NaN counts as active: outputs show it.
    """

    pulled: Callable[..., None]
    look: Callable[..., np.ndarray]


@compiled_once
def passes(dtype: str) -> Passes:
    """Compile the passes (about two seconds a dtype), or read kept machine code."""
    zero = np.dtype(dtype).type(0)
    row, table, cube, patterns = f"{dtype}[::1]", f"{dtype}[:,::1]", f"{dtype}[:,:,::1]", "boolean[:,:,::1]"

    # Both values are computed before one is chosen: without a jump the compiler handles several neurons at once.
    @machine_code(f"void({row}, {table}, {patterns}, boolean, {cube})", fastmath={"contract"})
    def pulled(pull, signs, on, anew, out):
        for q in range(len(signs)):
            sign = signs[q]
            for i in range(len(pull)):
                p, active, to = pull[i], on[q, i], out[q, i]
                for r in range(len(sign)):
                    value, before = p * sign[r], zero if anew else to[r]
                    to[r] = before + (value if active[r] else zero)

    @machine_code(f"{row}({cube}, {cube}, {table}, boolean, {patterns})", fastmath={"contract", "reassoc"})
    def look(z, start, signs, frozen, on):
        sums = np.zeros(z.shape[1], z.dtype)
        for q in range(len(signs)):
            sign = signs[q]
            for i in range(len(sums)):
                at, active, total = z[q, i], on[q, i], zero
                if len(start):
                    base = start[q, i]
                    for r in range(len(sign)):
                        at[r] += base[r]
                for r in range(len(sign)):
                    now = active[r] if frozen else not (at[r] < zero)
                    active[r] = now
                    signed = at[r] * sign[r]
                    total += signed if now else zero
                sums[i] += total
        return sums

    return Passes(pulled, look)
