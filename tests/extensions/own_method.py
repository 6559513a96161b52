"""A method such as a user writes, for tests: FedAvg in which every gradient of a client is multiplied by a factor."""

from dataclasses import dataclass

from ntkfl.training.method import Average, LocalRule, Method, Objective, Step
from ntkfl.training.tree import Params, tree_map

NAME = "shrunk"


def method(objective: Objective, *, factor: float = 0.5) -> Method:
    """FedAvg with every gradient times `factor`.

    Raises:
        ValueError: a negative factor.
    """
    if factor < 0:
        raise ValueError(f"factor is {factor:g}; it must be 0 or more")
    return Method(NAME, objective, local=Shrunk(factor), server=Average(1.0))


@dataclass(frozen=True)
class Shrunk(LocalRule):
    """The gradient times a factor."""

    factor: float = 1.0

    def correct(self, gradient: Params, params: Params, step: Step) -> Params:
        return tree_map(lambda g: self.factor * g, gradient)
