"""Algorithm 1 written plainly in weight space, over any kind of number: float64, extended precision, or balls.

It is the independent check of `simulate`, the "second precision" behind a confirmed violation, and, with balls, a proof
of every number it returns: in ball arithmetic a step whose activation pattern cannot be decided is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from flint import arb

from ntkfl.algorithm1 import checked_weights
from ntkfl.balls import enclosure, precision
from ntkfl.estimate import Estimate
from ntkfl.problem import Problem, Setup, Weights

ZERO = arb(0)  # compared with twice as fast as with the integer


class Undecided(ArithmeticError):
    """A pre-activation's ball contains 0, so its pattern is not decided at this precision."""


@dataclass(frozen=True)
class Arithmetic:
    """A kind of number: how to make an array of it, take roots and maxima, decide signs, and read an Estimate off.

    `total`: sum_r signs_r z_ir over the active r, for z (n, m), patterns (n, m) and signs (m,).
    """

    name: str
    convert: Callable[[np.ndarray], np.ndarray]
    root: Callable[[np.ndarray], np.ndarray]
    maximum: Callable[[np.ndarray], object]
    active: Callable[[np.ndarray], np.ndarray]
    total: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    estimate: Callable[[np.ndarray], Estimate]


def _decided(z: np.ndarray) -> np.ndarray:
    on = (z >= ZERO).astype(bool)
    rest = z[~on]
    undecided = rest[~(rest < ZERO).astype(bool)]
    if len(undecided):
        raise Undecided(f"a pre-activation is {undecided[0]}: its sign is not decided; use more bits")
    return on


def _largest(array: np.ndarray) -> arb:
    """The maximum of balls; one that is surely below another is passed over, which a comparison tells soonest."""
    top, *others = array.ravel()
    for value in others:
        if not value < top:
            top = top.max(value)
    return top


def _over_active(z: np.ndarray, on: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """(z * on) @ signs without the products that are 0, which take as long as the others."""
    return np.array([row[kept].dot(signs[kept]) if kept.any() else ZERO for row, kept in zip(z, on, strict=True)])


def _with_zeros(z: np.ndarray, on: np.ndarray, signs: np.ndarray) -> np.ndarray:
    return (z * on) @ signs


def _enclosures(array: np.ndarray) -> Estimate:
    flat = enclosure(list(array.ravel()))
    return Estimate(flat.value.reshape(array.shape), flat.error.reshape(array.shape), "ball")


BALL = Arithmetic(
    "ball",
    np.vectorize(lambda v: arb(float(v)), otypes=[object]),
    np.vectorize(lambda b: b.nonnegative_part().sqrt(), otypes=[object]),
    _largest,
    _decided,
    _over_active,
    _enclosures,
)
EXTENDED = Arithmetic(
    "extended precision",
    lambda array: np.asarray(array, np.longdouble),
    np.sqrt,
    np.max,
    lambda z: z >= 0,
    _with_zeros,
    lambda array: Estimate(np.asarray(array, float), np.zeros(()), "extended precision, no error bound"),
)
DOUBLE = Arithmetic(
    "float64",
    lambda array: np.asarray(array, float),
    np.sqrt,
    np.max,
    lambda z: z >= 0,
    _with_zeros,
    lambda array: Estimate(array, np.zeros(()), "float64, no error bound"),
)


@dataclass(frozen=True, eq=False)
class PlainRun:
    """The fields of `Trajectory` that a plain run computes, as Estimates; shapes as there."""

    outputs: Estimate
    local_outputs: Estimate
    residual_norm: Estimate
    movement: Estimate
    local_movement: Estimate
    step: Estimate
    total_movement: Estimate
    flips: Estimate
    weights: dict[int, np.ndarray]


def plain_run(
    problem: Problem,
    setup: Setup,
    weights: Weights | None = None,
    arithmetic: Arithmetic = DOUBLE,
    *,
    linearised: bool = False,
    bits: int = 256,
    keep: Iterable[int] = (),
) -> PlainRun:
    """Run Algorithm 1 in weight space, neuron by neuron and client by client, as the paper writes it.

    Args:
        problem, setup, weights: as for `simulate`; inputs are taken as the exact numbers their floats are.
        arithmetic: DOUBLE, EXTENDED or BALL. bits: precision of the balls; their radii grow with the rounds.
        keep: rounds whose hidden weights u(t) are kept, as numbers of the arithmetic.

    Raises:
        Undecided: (balls) some activation pattern is not decided with this many bits.
    """
    hidden, signs = checked_weights(problem, setup, weights)
    with precision(bits):
        return _plain_run(problem, setup, hidden, signs, arithmetic, linearised, set(keep))


def _plain_run(problem, setup, hidden, signs, arithmetic: Arithmetic, linearised, keep: set[int]) -> PlainRun:
    x, y, u0, a = (arithmetic.convert(v) for v in (problem.x, problem.y, hidden, signs))
    eta_local, eta_global = (arithmetic.convert(np.array([v]))[0] for v in (setup.eta_local, setup.eta_global))
    root_m = arithmetic.root(arithmetic.convert(np.array([float(setup.width)])))[0]
    start = arithmetic.active(x @ u0.T)

    def pattern(z, members):
        return start[members] if linearised else arithmetic.active(z)

    def forward(u, members):
        z = x[members] @ u.T
        on = pattern(z, members)
        return arithmetic.total(z, on, a) / root_m, on

    def lengths(difference):
        return (difference * difference).sum(axis=1)

    everyone = np.arange(problem.n)
    u, kept = u0, {}
    outputs, local_outputs, movement, local_movement, step, total, flips = [], [], [], [], [], [], []
    for t in range(setup.rounds + 1):
        out, on = forward(u, everyone)
        outputs.append(out)
        if t in keep:
            kept[t] = u
        moved = lengths(u - u0)
        movement.append(arithmetic.maximum(moved))
        total.append(moved.sum())
        flips.append(float((on != start).mean()))
        if t == setup.rounds:
            break
        rows = np.empty((setup.local_steps + 1, problem.n), dtype=x.dtype)
        far: list[list] = [[] for _ in range(setup.local_steps + 1)]
        change = u0 * 0
        for members in problem.clients():
            w, drift = u, u0 * 0  # w = u + drift: differences of balls would forget that they are nearly equal
            for k in range(setup.local_steps + 1):
                rows[k, members], on = forward(w, members)
                far[k].append(arithmetic.maximum(lengths(w - u0)) if k else movement[t])
                if k < setup.local_steps:
                    pull = np.where(on.T, a[:, None] * (y[members] - rows[k, members]), 0)  # (m, n_c)
                    drift = drift + (eta_local / root_m) * (pull @ x[members])
                    w = u + drift
            change = change + drift
        change = change / problem.n_clients
        step.append(arithmetic.maximum(lengths(change)))
        u = u + eta_global * change
        local_outputs.append(rows)
        local_movement.append([arithmetic.maximum(np.array(values)) for values in far])

    def root(values):
        return arithmetic.estimate(arithmetic.root(np.array(values)))

    residual = np.array(outputs) - y
    return PlainRun(
        outputs=arithmetic.estimate(np.array(outputs)),
        local_outputs=arithmetic.estimate(np.array(local_outputs)),
        residual_norm=root((residual * residual).sum(axis=1)),
        movement=root(movement),
        local_movement=root(local_movement),
        step=root(step),
        total_movement=root(total),
        flips=Estimate.exact(np.array(flips)),
        weights=kept,
    )
