"""Algorithm 1 written plainly in weight space, over any kind of number: float64, extended precision, or balls.

A ball is a number with a radius that bounds its error. This module is the independent check of `simulate`, and the
second precision in which a violation of a statement is confirmed. With balls every number that it returns has a proved
error bound, because a step is refused if its activation pattern cannot be decided.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from flint import arb
from jaxtyping import Bool, Float, Int

from ntkfl.algorithm1.simulation import checked_weights
from ntkfl.balls import enclosure, precision
from ntkfl.estimate import Estimate
from ntkfl.problem import Problem, Setup, Weights


class NeuronKinds:
    """A partition of the neurons into kinds, where all neurons of a kind have moved alike.

    A step moves neuron r by a_r times a sum over the samples on which r is active, where a_r is the neuron's sign. So
    the movement of a kind is computed once for all its neurons. At first the kinds are the two signs. A kind is split
    when the patterns of its neurons differ, and kinds are never joined.

    of: the kind of each neuron, (m,).
    first: the number of one neuron of each kind.
    counts: the number of neurons of each kind.
    """

    def __init__(self, signs: Float[np.ndarray, " m"]) -> None:
        self._number(signs)

    def part(self, active: Bool[np.ndarray, "n m"]) -> Int[np.ndarray, " kinds"] | None:
        """Split the kinds whose neurons differ in these patterns.

        Returns, for each kind after the split, the old kind that it comes from; None if no kind was split.
        """
        if (active == active[:, self.first][:, self.of]).all():
            return None
        before = self.of
        for row in active:
            self._number(2 * self.of + row)
        return before[self.first]

    def _number(self, labels: np.ndarray) -> None:
        _, self.first, self.of, self.counts = np.unique(
            labels, return_index=True, return_inverse=True, return_counts=True
        )


ZERO = arb(0)  # a comparison with this ball takes half the time of a comparison with the integer 0


class Undecided(ArithmeticError):
    """The ball of a pre-activation contains 0, so that its pattern cannot be decided at this precision."""


@dataclass(frozen=True)
class Arithmetic:
    """A kind of number, with the operations that a run needs.

    The functions make arrays of such numbers, take roots and maxima, decide signs, and convert numbers to an Estimate.
    `total` is sum_r signs_r z_ir over the active r, for z (n, m), patterns (n, m) and float signs (m,).
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
    """The maximum of balls.

    Balls that are surely smaller are skipped by a comparison, which is faster than `max`.
    """
    top, *others = array.ravel()
    for value in others:
        if not value < top:
            top = top.max(value)
    return top


def _total(z: np.ndarray, on: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """(z * on) @ signs, computed as a difference of two sums; products with the signs would take as long as the
    sums.
    """
    parts = (on & (signs > 0), on & (signs < 0))
    plus, minus = ([row[kept].sum() for row, kept in zip(z, part, strict=True)] for part in parts)
    return np.array(plus) - np.array(minus)


BALL = Arithmetic(
    "ball",
    np.vectorize(lambda v: arb(float(v)), otypes=[object]),
    np.vectorize(lambda b: b.nonnegative_part().sqrt(), otypes=[object]),
    _largest,
    _decided,
    lambda z, on, signs: _total(z, on, signs) + ZERO,  # without neurons the sum would be the integer 0
    enclosure,
)


def _floats(name: str, dtype: type) -> Arithmetic:
    return Arithmetic(
        name,
        lambda array: np.asarray(array, dtype),
        np.sqrt,
        np.max,
        lambda z: z >= 0,
        _total,
        lambda array: Estimate(np.asarray(array, float), np.zeros(()), f"{name}, no error bound"),
    )


EXTENDED, DOUBLE = _floats("extended precision", np.longdouble), _floats("float64", float)


@dataclass(frozen=True, eq=False)
class PlainRun:
    """The fields of `Trajectory` that a plain run computes, as Estimates of the same shapes.

    There is one more field: `local_flips`, (T, K+1, n), has for each sample the number of neurons whose pattern after k
    local steps of the sample's client differs from the pattern at the start.
    """

    outputs: Estimate
    local_outputs: Estimate
    residual_norm: Estimate
    movement: Estimate
    local_movement: Estimate
    step: Estimate
    total_movement: Estimate
    flips: Estimate
    local_flips: Estimate
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
    """Run Algorithm 1 in weight space, client by client, as the paper writes it.

    Neurons that must move alike are one kind, and a kind is moved once. The inputs are taken as the exact numbers that
    their floats are. `bits` is the precision of the balls, whose radii grow with the rounds.

    Raises:
        Undecided: (balls) some activation pattern is not decided with this many bits.
    """
    hidden, signs = checked_weights(problem, setup, weights)
    with precision(bits):
        return _plain_run(problem, setup, hidden, signs, arithmetic, linearised, set(keep))


def _plain_run(problem, setup, hidden, signs, arithmetic: Arithmetic, linearised, keep: set[int]) -> PlainRun:
    x, y, u0 = (arithmetic.convert(v) for v in (problem.x, problem.y, hidden))
    eta_local, eta_global = (arithmetic.convert(np.array([v]))[0] for v in (setup.eta_local, setup.eta_global))
    root_m = arithmetic.root(arithmetic.convert(np.array([float(setup.width)])))[0]
    z0 = x @ u0.T
    start, kinds = arithmetic.active(z0), NeuronKinds(signs)
    kinds.part(start)
    # Each array has a row for each kind of neurons, (kinds, d). `moved` is u - u(0), `drift` the change by the current
    # client, and `change` the sum of the changes by all clients so far.
    moved = drift = change = u0[kinds.first] * 0

    def forward(away, members):
        """Outputs and patterns, on these samples, of the network whose kinds have moved by `away`."""
        z = z0[members] + (x[members] @ away.T)[:, kinds.of]
        on = start[members] if linearised else arithmetic.active(z)
        return arithmetic.total(z, on, signs) / root_m, on

    def lengths(away):
        return (away * away).sum(axis=1)

    everyone = np.arange(problem.n)
    kept = {}
    outputs, local_outputs, movement, local_movement, step, total, flips = [], [], [], [], [], [], []
    local_flips = np.zeros((setup.rounds, setup.local_steps + 1, problem.n))
    for t in range(setup.rounds + 1):
        out, on = forward(moved, everyone)
        outputs.append(out)
        if t in keep:
            kept[t] = u0 + moved[kinds.of]
        squares = lengths(moved)
        movement.append(arithmetic.maximum(squares))
        total.append((squares * arithmetic.convert(kinds.counts)).sum())
        flips.append(float((on != start).mean()))
        if t == setup.rounds:
            break
        rows = np.empty((setup.local_steps + 1, problem.n), dtype=x.dtype)
        far: list[list] = [[] for _ in range(setup.local_steps + 1)]
        change = moved * 0
        for members in problem.members:
            drift = moved * 0
            for k in range(setup.local_steps + 1):
                rows[k, members], on = forward(moved + drift, members)
                local_flips[t, k, members] = (on != start[members]).sum(axis=1)
                far[k].append(arithmetic.maximum(lengths(moved + drift)) if k else movement[t])
                if k < setup.local_steps:
                    parent = kinds.part(on)
                    if parent is not None:
                        moved, drift, change = moved[parent], drift[parent], change[parent]
                    of_kind = arithmetic.convert(signs[kinds.first])[:, None]
                    pull = np.where(on[:, kinds.first].T, of_kind * (y[members] - rows[k, members]), 0)  # (kinds, n_c)
                    drift = drift + (eta_local / root_m) * (pull @ x[members])
            change = change + drift
        change = change / problem.n_clients
        step.append(arithmetic.maximum(lengths(change)))
        moved = moved + eta_global * change
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
        local_flips=Estimate.exact(local_flips),
        weights=kept,
    )
