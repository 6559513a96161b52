"""When an outer rate above 1 helps: for the expected loss after one round, and for the long-run rate."""

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.fl_ntk.cases.random_round import RANDOM_ROUNDS, RandomRound, operators
from bounds.mutants import MILLIONTH_MORE, power, replaced, reversed_comparison, scaled
from ntkfl.estimate import Estimate

descent, energy = sp.symbols("b a", positive=True)
near, far = sp.symbols("lambda_1 lambda_g", positive=True)
ANCHOR = "docs/proofs/random_rounds.md#outer-rates-above-1"
ROUNDED = 1e-11  # relative error of a dozen products of matrices of 49 rows


def _loss(case: RandomRound, server: float) -> float:
    """E |r|^2 after the second round at the outer rate `server`, over every choice of clients and batches."""
    second = np.asarray(case.moments(1).value)
    return float(sum(chance * np.trace(m @ second @ m.T) for chance, m in case.maps(server)))


def _best(case: RandomRound) -> tuple[Estimate, Estimate]:
    """Where the parabola through the losses at the rates 0, 1, 2 is lowest; its value at 1 less its lowest value."""
    nothing, plain, twice = (_loss(case, server) for server in (0.0, 1.0, 2.0))
    bend, slope = (twice - 2 * plain + nothing) / 2, (4 * plain - 3 * nothing - twice) / 2
    best, error = -slope / (2 * bend), ROUNDED * (nothing + plain + twice)
    off, aside = error / bend * (1 + best), best - 1
    gain = Estimate(bend * aside**2, 2 * bend * abs(aside) * off + bend * off**2 + error * aside**2, "rounding")
    return Estimate(best, off, "rounding"), gain


def _moments(case: RandomRound) -> dict:
    first, second = operators(case)
    known, count = np.asarray(case.moments(1).value), case.problem.n_clients
    trace = np.eye(len(known)).ravel()
    falls, rises = trace @ first @ known.ravel() / (2 * count), trace @ second @ known.ravel() / count**2
    return {
        descent: Estimate(falls, ROUNDED * abs(falls), "rounding"),
        energy: Estimate(rises, ROUNDED * rises, "rounding"),
    }


def _rate(case: RandomRound) -> float:
    """An outer rate to compare with 1: the case's, or 3/2."""
    return case.setup.eta_global if abs(case.setup.eta_global - 1) > 0.05 else 1.5


def _radii(case: RandomRound) -> dict:
    first, second = operators(case)
    count, unit = case.problem.n_clients, np.eye(len(first))

    def radius(server: float) -> Estimate:
        whole = unit - server / count * first + (server / count) ** 2 * second
        value = float(np.abs(np.linalg.eigvals(whole)).max())
        return Estimate(value, 1e-9 * max(value, 1.0), "rounding of eigenvalues, generous")

    return {near: radius(1.0), far: radius(_rate(case))}


def _convex(case: RandomRound) -> tuple[Estimate, Estimate]:
    """The radius halfway between 1 and the other rate; the tangent at 1, at the other rate."""
    rate = _rate(case)
    n = case.problem.n
    whole, change = np.zeros((n * n, n * n)), np.zeros((n * n, n * n))
    for chance, m in case.maps(1.0):
        step = m - np.eye(n)
        whole += chance * np.kron(m, m)
        change += chance * (np.kron(step, m) + np.kron(m, step))
    values, right = np.linalg.eig(whole)
    back, lefts = np.linalg.eig(whole.T)
    top, other = int(np.argmax(values.real)), int(np.argmax(back.real))
    x, y = right[:, top].real, lefts[:, other].real
    radius = float(values[top].real)
    tangent = radius + (rate - 1) * float(y @ change @ x / (y @ x))
    gap = radius - float(np.sort(values.real)[-2])
    error = 1e-9 * max(radius, 1.0) + abs(rate - 1) * 1e-11 * float(np.abs(change).sum()) / max(gap, 1e-12)
    return case.radius((1 + rate) / 2), Estimate(tangent, error, "eigenvectors, by their gap")


STATEMENTS = (
    Statement(
        id="fl-ntk/outer-rate",
        title="An outer rate above 1 lowers a round's expected loss exactly if b > a, at best by (b - a)^2/a",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            ANCHOR,
            note="a round lowers E |r|^2 by 2 g b - g^2 a, with b = E r.Hd and a = E |Hd|^2, where d is the clients' "
            "mean displacement. The loss after the round is least at g = b/a, and smaller than at g = 1 for g between "
            "1 and 2 b/a - 1",
        ),
        forms={Form.NEW: Claim((descent / energy, (descent - energy) ** 2 / energy))},
        constants=_moments,
        measure=_best,
        symbols={
            descent: "E r.Hd, tr L1(C)/(2N) in closed form, C = E r r' after a round",
            energy: "E |Hd|^2, tr L2(C)/N^2 in closed form",
        },
        left_formula=("argmin_g E |r(2)|^2", "E |r(2)|^2 at g = 1 - min_g E |r(2)|^2"),
        says_left="the expected loss after the second round, over every choice of clients and batches, is a parabola "
        "in the outer rate: left 1 is the rate at its lowest point, left 2 the loss at the outer rate 1 less the "
        "lowest loss",
        families=RANDOM_ROUNDS,
        mutants=(
            MILLIONTH_MORE,
            power(energy, 2),
            replaced(descent, energy, "as if the outer rate 1 were best", Change.FACTOR),
            replaced(descent, 2 * descent, "a descent that counts twice", Change.CONSTANT),
        ),
        uses=("fl-ntk/second-moments",),
    ),
    Statement(
        id="fl-ntk/outer-rate-convex",
        title="The long-run factor of E |r|^2 is convex in the outer rate: its slope at 1 decides whether a larger "
        "rate helps",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            ANCHOR,
            note="so an outer rate above 1 can lower the factor exactly if the slope to the right of 1 is negative, "
            "and by no more than the tangent falls",
        ),
        forms={Form.NEW: Claim(((near + far) / 2, far))},
        constants=_radii,
        measure=_convex,
        symbols={
            near: "the radius of C - h L1(C) + h^2 L2(C) at the outer rate 1, in closed form",
            far: "the same at the case's outer rate",
        },
        left_formula=("lambda((1 + g)/2)", "lambda(1) + (g - 1) lambda'(1)"),
        says_left="the radius of E M (x) M over every choice of clients and batches, halfway between 1 and the outer "
        "rate; and the tangent at 1, by both eigenvectors, at the outer rate",
        families=RANDOM_ROUNDS,
        mutants=(scaled(sp.Rational(9, 10)), reversed_comparison()),
        uses=("fl-ntk/mean-square",),
    ),
)
