"""Statements on how a round changes the outputs and the residual: Definition 3.2 and Eqs (1), (3), (4).

In a further statement the mean slope of relu between u(t).x_i and u(t+1).x_i takes the place of 1{u(t).x_i >= 0}.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import BEYOND, FL_NTK, Case, Change, Claim, Family, Kind, Source, Statement
from bounds.cases.snapshot import snapshot
from bounds.federated_run import FederatedRun, federated_families, run_values
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced, sign_flipped, without
from bounds.symbols import K, N, eta_global, eta_local, m, n, r_t
from ntkfl import Estimate, gram

inner_product, both, local, outside, on, near = sp.symbols("g C C_local C_perp a A", real=True)


@dataclass(frozen=True, eq=False)
class GridNetwork(Case):
    """Samples, global weights and two clients' weights, all of small integers, so that many products w.x are 0."""

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
        """Whether u_r.x_i >= 0, (n, m), computed in integers."""
        return self.x @ self.u.T >= 0

    @cached_property
    def local_active(self) -> np.ndarray:
        """Whether w_r.x_i >= 0 under the weights w of each sample's client, (n, m)."""
        return np.einsum("id,imd->im", self.x, self.w[self.owner]) >= 0

    @cached_property
    def near(self) -> np.ndarray:
        """Whether -R |x_i| <= u_r.x_i < R |x_i|, (n, m), computed in integers.

        |u_r.x_i| is never exactly R |x_i|, so a comparison of their squares decides both inequalities.
        """
        return 100 * (self.x @ self.u.T) ** 2 < (7 * self.sevenths) ** 2 * (self.x**2).sum(axis=1)[:, None]

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


def _constants_counts(case: GridNetwork) -> dict:
    ours, theirs, near_ = (part.astype(np.int64) for part in (case.active, case.local_active, case.near))
    return {
        inner_product: (case.x @ case.x.T).astype(float),
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
    """Quotients of integers, whose error is two roundings plus `more`."""
    return Estimate(value, more + 2 * np.finfo(float).eps * np.abs(value), "rounding bound")


residual_change, change = sp.symbols("c s", real=True)  # (y - y(t)).(y(t+1) - y(t)) and |y(t+1) - y(t)|^2


def _constants_eq1(case: FederatedRun) -> dict:
    outputs, y = case.observed("outputs"), case.problem.y
    step, ones = outputs[1:] - outputs[:-1], np.ones(case.problem.n)
    return {
        r_t: case.observed("residual_norm")[:-1],
        residual_change: ((y - outputs[:-1]) * step) @ ones,
        change: (step * step) @ ones,
    }


H = sp.MatrixSymbol("H", n, n * K)
H_perp = sp.MatrixSymbol("H_perp", n, n * K)
residual = sp.MatrixSymbol("r", n * K, 1)


def _constants_eq3_4(case: FederatedRun) -> dict:
    inside = snapshot(case)
    return run_values(case, eta_global, eta_local, N) | {
        H: inside.grams(),
        H_perp: inside.grams(~inside.safe),
        residual: inside.stacked_residual,
    }


G = sp.MatrixSymbol("G", n, n * K)


def _constants_mean_slope(case: FederatedRun) -> dict:
    grams, residuals = snapshot(case).mean_slope_grams, snapshot(case).stacked_residual
    return run_values(case, eta_global, eta_local, N) | {G: grams, residual: residuals}


STATEMENTS = (
    Statement(
        id="fl-ntk/counts",
        title="H, H(t,k) and H(t,k)^perp by counting neurons, ties included",
        kind=Kind.EQUALITY,
        source=Source(FL_NTK, "Definition 3.2, Eqs (3) and (4), and the definition of Q_i"),
        note="the indicators are those of u_r.x_i >= 0, so that a neuron at its kink is active; Q_i leaves out the "
        "neurons with -R |x_i| <= u_r.x_i < R |x_i|. For networks of small integers both conditions are decided in "
        "integers",
        stated=Claim((inner_product * both / m, inner_product * local / m, inner_product * outside / m)),
        constants=_constants_counts,
        measure=_measure,
        symbols={
            inner_product: "x_i.x_j",
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
    Statement(
        id="fl-ntk/Eq1",
        title="Expansion of the squared residual over one round",
        kind=Kind.EQUALITY,
        source=Source(FL_NTK, "Eq (1), printed again as Eq (6)"),
        stated=Claim(r_t**2 - 2 * residual_change + change),
        constants=_constants_eq1,
        measure=lambda case: case.observed("residual_norm")[1:].squared(),
        symbols={residual_change: "(y - y(t)).(y(t+1) - y(t))", change: "|y(t+1) - y(t)|^2"},
        left_formula="|y - y(t+1)|^2",
        says_left="|y - y(t+1)|^2 of the simulated run, every round",
        families=federated_families,
        mutants=(
            MILLIONTH_MORE,
            without(change),
            sign_flipped(change, "the square"),
            replaced(residual_change, residual_change / 2, "the inner product once", Change.CONSTANT),
        ),
    ),
    Statement(
        id="fl-ntk/Eq3-4",
        title="Closed form of v_1, the change made by certified neurons",
        kind=Kind.EQUALITY,
        source=Source(FL_NTK, "Eqs (3), (4) and the closed form of v_1"),
        note="the equations hold where u(t) and u(t+1) are within R of u(0) for all neurons; the local weights "
        "need not be. R is the movement of the run, so the condition is met by construction. The dynamics "
        "displayed in section 3.2 lack the factor eta_g eta_l/N of (3) and (4)",
        stated=Claim(eta_global * eta_local / N * (H - H_perp) * residual),
        constants=_constants_eq3_4,
        measure=lambda case: snapshot(case).change(snapshot(case).safe),
        symbols={
            H: "[H(t,0) ... H(t,K-1)]",
            H_perp: "the same over the neurons outside Q_i",
            residual: "y - y^{(k)}(t), stacked over k",
        },
        left_formula="v_1",
        says_left="v_1 by direct summation over the neurons of Q_i, at the middle round",
        families=federated_families,
        mutants=(MILLIONTH_MORE, without(N), power(eta_local, sp.Rational(1, 2)), sign_flipped(H_perp, "H_perp")),
    ),
    Statement(
        id="fl-ntk/mean-slope",
        title="A round's change through the mean slopes of relu",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "sharpens Eqs (3), (4) of FL-NTK: docs/proofs/certificates.md#one-step"),
        note="the mean slope of relu between u(t).x_i and u(t+1).x_i replaces 1{u(t).x_i >= 0}; the terms C_2 and "
        "C_3 disappear",
        new=Claim(eta_global * eta_local / N * G * residual),
        constants=_constants_mean_slope,
        measure=lambda case: snapshot(case).change(),
        symbols={G: "[G^(0) ... G^(K-1)], mean-slope Gram matrices", residual: "y - y^{(k)}(t), stacked over k"},
        left_formula="y(t+1) - y(t)",
        says_left="y(t+1) - y(t) by direct summation over all neurons, at the middle round",
        families=federated_families,
        mutants=(MILLIONTH_MORE, without(N), power(N, 2), power(eta_local, sp.Rational(1, 2))),
        uses=("fl-ntk/Eq3-4",),
    ),
)
