"""The network of a run at every few rounds, trained in legs whose weights can be repeated to the last bit."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from ntkfl import interruption
from ntkfl.algorithm1.simulation import simulate
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights

State = TypeVar("State")


def in_legs(
    start: State, train: Callable[[State, range], State], rounds: int, every: int
) -> Iterator[tuple[int, State]]:
    """The rounds 0, `every`, 2 `every` and so on up to `rounds`, each with the state of training after it.

    The last leg is shorter where `every` does not divide `rounds`. `train` takes a state and a leg's round numbers, and
    returns the state after the leg.

    Raises:
        ValueError: rounds negative or every not positive.
    """
    if rounds < 0 or every < 1:
        raise ValueError(f"rounds is {rounds} and every is {every}; they must be at least 0 and at least 1")
    state = start
    yield 0, state
    for reached in range(0, rounds, every):
        interruption.check()
        leg = range(reached + 1, min(reached + every, rounds) + 1)
        state = train(state, leg)
        yield leg[-1], state


def overflowed(setup: Setup, reached: int) -> FloatingPointError:
    """The error to raise for a run whose weights are not finite after round `reached`."""
    return FloatingPointError(
        f"the weights are not finite after round {reached}: eta_local = {setup.eta_local:g} or "
        f"eta_global = {setup.eta_global:g} is too long a step; try a tenth"
    )


def checkpoints(problem: Problem, setup: Setup, rounds: int, every: int) -> Iterator[tuple[int, Weights]]:
    """The initial network of setup.seed and the network after each leg of `every` rounds, up to `rounds`.

    The weights depend on `every` in their last bits: each leg starts from the previous leg's last weights, rounded to
    float64.

    Raises:
        ValueError: as `in_legs`. FloatingPointError: as `simulate`.
    """

    def train(weights: Weights, leg: range) -> Weights:
        run = simulate(problem, replace(setup, rounds=len(leg)), weights, keep=[len(leg)], movements=False)
        return Weights(run.weights[len(leg)], weights.signs)

    return in_legs(draw(setup.width, problem.d, setup.seed, setup.sigma), train, rounds, every)
