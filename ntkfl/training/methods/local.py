"""Local: every client trains alone from the common initial model, and nothing is sent to the server."""

from ntkfl.training.method import Finish, LocalRule, Method, Objective, Round, ServerRule
from ntkfl.training.model import Model
from ntkfl.training.tree import Params, Tree

NAME = "local"
NOT_LINEAR = "its server's model never moves"


def method(objective: Objective) -> Method:
    """In each round every client that takes part continues from its own model.

    All clients' models are evaluated, and the mean of the results over clients is reported. `Federation.own_models`
    gives the clients' models. The server's model stays the initial model; the clients' models are never averaged.

    Args:
        objective: the loss that clients descend.
    """
    return Method(NAME, objective, local=Alone(), server=Unmoved(), personal=True)


class Alone(LocalRule):
    """A client keeps its own model, as "model"."""

    def initial(self, model: Model, broadcast: Tree) -> Tree:
        return {"model": broadcast["model"]}

    def start(self, kept: Tree, broadcast: Tree) -> Params:
        return kept["model"]

    def finish(self, client: Tree, broadcast: Tree, end: Finish) -> tuple[Tree, Tree]:
        return {}, {"model": end.end}


class Unmoved(ServerRule):
    """The server always sends the initial model."""

    takes_differences = False

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        return state
