"""MOON (Li, He, Song 2021): features move to the global model's features and away from the client's earlier ones."""

from dataclasses import dataclass, replace

from ntkfl.messages import require_number
from ntkfl.training.method import Batch, Finish, LocalRule, Method, Objective, Step
from ntkfl.training.model import Model
from ntkfl.training.tree import Params, Tensor, Tree

NAME = "moon"
NOT_LINEAR = "its loss compares directions of features"


def method(objective: Objective, *, mu: float = 1.0, temperature: float = 0.5, released: bool = False) -> Method:
    """The loss is the objective + mu * mean of -log(e^(s/T) / (e^(s/T) + e^(p/T))) with cosine similarities s and p.

    s compares a sample's features with its features under the model received. p compares them with its features under
    this client's model at the end of the client's last participation. In a client's first participation the two models
    are the same, so that the client's steps equal FedAvg's steps. Features are the inputs of the model's head. If there
    is a projection before the head, it is part of the model.

    Args:
        objective: the loss that clients descend.
        mu: weight of the second term; default 1.
        temperature: T; default 0.5.
        released: whether p is computed as in FedGuCci's code, where the previous model is never renewed. (mu and T are
            1 in that code, but this option does not set them.)

    Raises:
        ValueError: a negative mu, or a temperature that is not positive.
    """
    require_number("mu, the weight of the contrast,", mu, "be 0 or more")
    require_number("the temperature of the contrast", temperature, "be positive")

    def contrasted(model: Model, params: Params, batch: Batch, step: Step) -> Tensor:
        from torch.nn.functional import cosine_similarity, logsigmoid

        z = model.features(params, batch.x)  # computed once, for both terms

        def similarity(other: Params) -> Tensor:
            return cosine_similarity(z.flatten(1), model.features(other, batch.x).flatten(1), dim=1)

        margin = similarity(step.client["previous"]) - similarity(step.broadcast["model"])
        contrast = batch.mean(-logsigmoid(-margin / temperature))
        return objective(replace(model, features=lambda params, x: z), params, batch, step) + mu * contrast

    return Method(NAME, contrasted, local=PreviousModel(renewed=not released), needs=frozenset({"split"}))


@dataclass(frozen=True)
class PreviousModel(LocalRule):
    """A client keeps its model at the end of its last round; unless `renewed`, it keeps the first model received."""

    renewed: bool = True

    def initial(self, model: Model, broadcast: Tree) -> Tree:
        return {"previous": broadcast["model"]}

    def finish(self, client: Tree, broadcast: Tree, end: Finish) -> tuple[Tree, Tree]:
        return {"difference": end.difference}, {"previous": end.end} if self.renewed else client
