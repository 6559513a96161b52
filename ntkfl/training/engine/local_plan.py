"""The draws of a round, made before any training of it: the cohort, the orders of batches, uniform random numbers.

The key of a draw is (seed, stream, round, client), so a draw depends neither on the method nor on the grouping of
clients. With the same seed, all methods have the same cohorts and the same batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ntkfl.messages import require_number

# numbers of random streams; the streams of ntkfl.partition and ntkfl.data have other numbers: small ones, from 0 on
COHORT, ORDER, DRAWS = 101, 102, 103


@dataclass(frozen=True)
class LocalWork:
    """The amount of a client's training in a round.

    Args:
        epochs: passes over the client's samples.
        batch_size: number of samples in a step; None: all samples of the client, in their order.
        steps: number of steps, used in place of `epochs`; the steps take as many passes as they need. A tuple has a
            number of steps for each client.
        independent: whether each step draws its batch anew from all samples; otherwise a client passes over its samples
            in random order.

    Raises:
        ValueError: a number that is not positive.
    """

    epochs: int = 1
    batch_size: int | None = 32
    steps: int | tuple[int, ...] | None = None
    independent: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "steps"):
            value = getattr(self, name)
            if value is not None and (value == () or np.min(value) < 1):
                raise ValueError(f"{name} is {value}; it must be a positive integer")

    @property
    def most_steps(self) -> int | None:
        """The largest number of `steps`; None if work is counted in passes."""
        return max(self.steps) if isinstance(self.steps, tuple) else self.steps

    def steps_of(self, client: int, a_pass: int) -> int:
        """The number of steps of a client in a round.

        Args:
            client: the client's number, from 0.
            a_pass: steps of one pass over the client's samples.
        """
        if isinstance(self.steps, tuple):
            return self.steps[client]
        return self.steps or self.epochs * a_pass

    def at(self, number: int) -> LocalWork:
        """The work of a round; here it is the same in all rounds.

        Args:
            number: the round, from 0.
        """
        return self


@dataclass(frozen=True)
class FewerEpochs(LocalWork):
    """Local work that has one pass fewer after every `every` rounds from round `start` on, but at least one pass.

    Source: the epoch decay of IMA's Table III.
    """

    start: int = 0
    every: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps is not None:
            raise ValueError(f"steps is {self.steps}; passes are counted in epochs here, so it must be None")
        if self.start < 0 or self.every < 1:
            raise ValueError(
                f"start is {self.start} and every is {self.every}; start must be 0 or more, every 1 or more"
            )

    def at(self, number: int) -> LocalWork:
        gone = max(0, number - self.start) // self.every
        return LocalWork(max(1, self.epochs - gone), self.batch_size, independent=self.independent)


@dataclass(frozen=True, eq=False)
class LocalPlan:
    """The steps of some clients in one round."""

    index: np.ndarray  # the number of the sample at each place of each batch, (clients, steps, b)
    real: np.ndarray  # whether the place has a sample and is no padding, (clients, steps, b)
    active: np.ndarray  # whether the client takes that step, (clients, steps)
    ends_epoch: np.ndarray  # whether a pass ends with that step, (clients, steps)
    draws: np.ndarray  # uniform random numbers, (clients, steps, draws)
    same_batch: bool  # whether every step of a client has the same batch


def cohort_size(population: int, participation: float) -> int:
    """The number of clients in a round: round(participation * population), but at least one.

    Raises:
        ValueError: a participation outside (0, 1].
    """
    require_number("participation", participation, "lie in (0, 1]")
    return max(1, round(participation * population))


def cohort(population: int, participation: float, seed: int, number: int) -> list[int]:
    """The clients of round `number`, ascending; their number is `cohort_size`.

    Raises:
        ValueError: a participation outside (0, 1].
    """
    size = cohort_size(population, participation)
    if size == population:
        return list(range(population))
    return sorted(_rng(seed, COHORT, number, 0).choice(population, size, replace=False).tolist())


def local_plan(
    members: Sequence[np.ndarray], clients: Sequence[int], work: LocalWork, seed: int, number: int, draws: int
) -> LocalPlan:
    """The plan of these clients in round `number`. `members` has the samples of every client of the population."""
    batches = [_batches(members[c], work, seed, number, c) for c in clients]
    steps = max((len(rows) for rows, _ in batches), default=0)
    size = max((len(row) for rows, _ in batches for row in rows), default=0)
    shape = len(clients), steps
    index, real = np.zeros((*shape, size), int), np.zeros((*shape, size), bool)
    active, ends = np.zeros(shape, bool), np.zeros(shape, bool)
    uniform = np.zeros((*shape, draws))
    for place, (client, (rows, last)) in enumerate(zip(clients, batches, strict=True)):
        active[place, : len(rows)] = True
        ends[place, : len(rows)] = last
        if draws and rows:
            uniform[place, : len(rows)] = _rng(seed, DRAWS, number, client).random((len(rows), draws))
        for step, row in enumerate(rows):
            index[place, step, : len(row)] = row
            real[place, step, : len(row)] = True
    return LocalPlan(index, real, active, ends, uniform, work.batch_size is None)


def _batches(own: np.ndarray, work: LocalWork, seed: int, number: int, client: int) -> tuple[list[np.ndarray], list]:
    """The batches of one client and, for each batch, whether a pass ends with it."""
    if not len(own):
        return [], []
    size = work.batch_size or len(own)
    a_pass = -(-len(own) // size)
    steps = work.steps_of(client, a_pass)
    rng = _rng(seed, ORDER, number, client) if work.batch_size is not None else None
    rows: list[np.ndarray] = []
    if rng is not None and work.independent:
        rows = [rng.choice(own, min(size, len(own)), replace=False) for _ in range(steps)]
    while len(rows) < steps:
        order = own if rng is None else rng.permutation(own)
        rows += np.split(order, range(size, len(own), size))
    return rows[:steps], [(step + 1) % a_pass == 0 for step in range(steps)]


def _rng(seed: int, stream: int, number: int, client: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream, number, client)))
