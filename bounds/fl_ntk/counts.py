"""Definition 3.2 and the sets Q_i, by counting neurons in integers, ties included."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import FL_NTK, Case, Change, Claim, Family, Form, Kind, Source, Statement
from bounds.mutants import MILLIONTH_MORE, index_shifted, replaced
from bounds.symbols import m
from ntkfl import Estimate, gram

inner, both, local, outside, on, near = sp.symbols("g C C_local C_perp a A", real=True)


@dataclass(frozen=True, eq=False)
class GridNetwork(Case):
    """Samples, global weights and two clients' weights, all small integers, so that many patterns are ties."""

    x: np.ndarray  # (n, d)
    owner: np.ndarray  # (n,)
    u: np.ndarray  # (m, d)
    w: np.ndarray  # (2, m, d)
    sevenths: int = 1  # R is 7/10 of this number, so that no neuron is exactly at distance R

    @property
    def radius(self) -> float:
        """R."""
        return 0.7 * self.sevenths

    @cached_property
    def active(self) -> np.ndarray:
        """u_r.x_i >= 0, (n, m), in integers."""
        return self.x @ self.u.T >= 0

    @cached_property
    def local_active(self) -> np.ndarray:
        """w_r.x_i >= 0 under the weights w of each sample's client, (n, m)."""
        return np.einsum("id,imd->im", self.x, self.w[self.owner]) >= 0

    @cached_property
    def near(self) -> np.ndarray:
        """-R |x_i| <= u_r.x_i < R |x_i|, (n, m), in integers; the two squares compared are never equal."""
        z = self.x @ self.u.T
        return 100 * z**2 < (7 * self.sevenths) ** 2 * (self.x**2).sum(axis=1)[:, None]

    def describe(self) -> dict[str, Any]:
        """The words that identify the case in a report."""
        return {"n": len(self.x), "width": len(self.u), "R": self.radius}


def _grid(n: int, width: int, seed: int) -> GridNetwork:
    """Samples and neurons with entries from -3 to 3, in three dimensions."""
    rng = np.random.default_rng([seed, 7])
    x = rng.integers(-3, 4, (n, 3))
    x[~x.any(axis=1), 0] = 1
    u, w = rng.integers(-3, 4, (width, 3)), rng.integers(-3, 4, (2, width, 3))
    return GridNetwork(x, np.arange(n) % 2, u, w, 1 + seed % 3)


SMALL_GRIDS = st.builds(_grid, st.integers(2, 6), st.integers(1, 64), st.integers(0, 2**16))
GRIDS = Family("integers from -3 to 3", _grid, SMALL_GRIDS, (6, 64), needs=5)


def _constants(case: GridNetwork) -> dict:
    ours, theirs, near_ = (part.astype(np.int64) for part in (case.active, case.local_active, case.near))
    return {
        inner: (case.x @ case.x.T).astype(float),
        both: (ours @ ours.T).astype(float),
        local: (ours @ theirs.T).astype(float),
        outside: ((ours * near_) @ theirs.T).astype(float),
        m: len(case.u),
    }


def _measure(case: GridNetwork) -> tuple[Estimate, ...]:
    x, u, w = (np.asarray(part, float) for part in (case.x, case.u, case.w))
    safe, estimated = gram.safe_neurons(x, u, case.radius), gram.finite_estimate(x, u)
    plain = np.array([gram.finite(x, u), gram.finite(x, u, z=x), gram.jacobian_gram(x, u, u), estimated.value])
    return (
        _rounded(plain, estimated.error),
        _rounded(gram.local_gram(x, case.owner, u, w)),
        _rounded(gram.local_gram(x, case.owner, u, w, ~safe)),
    )


def _rounded(value: np.ndarray, more: np.ndarray | float = 0.0) -> Estimate:
    """Quotients of integers, with an error of two roundings and of `more`."""
    return Estimate(value, more + 2 * np.finfo(float).eps * np.abs(value), "rounding bound")


STATEMENTS = (
    Statement(
        id="fl-ntk/counts",
        title="H, H(t,k) and H(t,k)^perp by counting neurons, ties included",
        kind=Kind.EQUALITY,
        source=Source(
            FL_NTK,
            "Definition 3.2, Eqs (3) and (4), and the definition of Q_i",
            note="the indicators are those of u_r.x_i >= 0, so that a neuron at its kink is active; Q_i leaves out the "
            "neurons with -R |x_i| <= u_r.x_i < R |x_i|. For networks of small integers both conditions are decided in "
            "integers",
        ),
        forms={Form.STATED: Claim((inner * both / m, inner * local / m, inner * outside / m))},
        constants=_constants,
        measure=_measure,
        symbols={
            inner: "x_i.x_j",
            both: "neurons active on both samples",
            local: "neurons active on i under u(t) and on j under the weights of j's client",
            outside: "the neurons of C_local that lie outside Q_i",
        },
        left_formula=("H(t)_{i,j}", "H(t,k)_{i,j}", "H(t,k)_{i,j}^perp"),
        says_left="from the library's functions: entries of H, of H(t,k), and of H(t,k) over the neurons outside Q_i",
        families=(GRIDS,),
        mutants=(
            MILLIONTH_MORE,
            index_shifted(m, 1),
            replaced(local, both, "global patterns on both sides", Change.INDEX),
            replaced(outside, local, "over all neurons", Change.FACTOR),
        ),
    ),
)
