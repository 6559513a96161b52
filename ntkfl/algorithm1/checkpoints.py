"""The network of a run at every few rounds, made in legs that can be made again to the last bit."""

from collections.abc import Iterator
from dataclasses import replace

from ntkfl.algorithm1.simulation import simulate
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights


def checkpoints(problem: Problem, setup: Setup, rounds: int, every: int) -> Iterator[tuple[int, Weights]]:
    """The network of setup.seed and, trained in legs of `every` rounds, those after every leg up to `rounds`.

    The last leg is shorter where `every` does not divide `rounds`. Legs are part of what reproduces the weights to the
    last bit: each starts from the float64 weights that the one before has left.

    Raises:
        ValueError: rounds negative or every not positive. FloatingPointError: as `simulate`.
    """
    if rounds < 0 or every < 1:
        raise ValueError(f"rounds is {rounds} and every is {every}; they must be at least 0 and at least 1")
    weights = draw(setup.width, problem.d, setup.seed, setup.sigma)
    yield 0, weights
    for reached in range(0, rounds, every):
        leg = min(every, rounds - reached)
        run = simulate(problem, replace(setup, rounds=leg), weights, keep=[leg], movements=False)
        weights = Weights(run.weights[leg], weights.signs)
        yield reached + leg, weights
