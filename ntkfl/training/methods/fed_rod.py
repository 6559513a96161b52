"""FedRoD (Chen & Chao 2022): a balanced loss trains body and shared head; a personal head stays with each client."""

from ntkfl.training.method import Batch, LocalRule, Method, Objective, Step, moved, plain_gradient
from ntkfl.training.model import Model
from ntkfl.training.objectives import BalancedCrossEntropy, cross_entropies, require_cross_entropy
from ntkfl.training.tree import Params, Tensor, Tree

NAME = "fedrod"
NOT_LINEAR = "its loss is a cross-entropy, of two heads"


def method(objective: Objective, *, gamma: float = 1.0) -> Method:
    """FedAvg of body and shared head on the cross-entropy of logits + gamma log n_c, and personal heads.

    A run reports the shared model and, where clients are evaluated, the clients' own predictions.

    Args:
        objective: the loss that clients descend.
        gamma: strength of the balanced softmax, default 1.

    Raises:
        ValueError: an objective other than cross-entropy.
    """
    require_cross_entropy(objective)
    return Method(
        NAME,
        BalancedCrossEntropy(gamma),
        local=PersonalHead(),
        needs=frozenset({"classes", "split"}),
        personal_outputs=lambda model, params, kept, x: personal_outputs(model, params, kept["head"], x),
    )


class PersonalHead(LocalRule):
    """A head that a client keeps: at first the shared head; after each batch it takes a plain gradient step.

    Its logits are added to the shared logits, and only this head descends the cross-entropy of the sum: features and
    shared logits are those before the batch's step, as in the authors' code.
    """

    def initial(self, model: Model, broadcast: Tree) -> Tree:
        return {"head": {name: broadcast["model"][name] for name in model.head_names}}

    def after_step(self, model: Model, before: Params, params: Params, batch: Batch, step: Step) -> tuple[Params, Tree]:
        def loss(head: Params) -> Tensor:
            return batch.mean(cross_entropies(personal_outputs(model, before, head, batch.x), batch.y))

        head = step.client["head"]
        gradient, _ = plain_gradient(loss, head)
        return params, {"head": moved(head, gradient, -step.rate)}


def personal_outputs(model: Model, params: Params, head: Params, x: Tensor) -> Tensor:
    """A client's logits (b, C) in tests: the shared head's logits plus those of `head`, the client's own."""
    z = model.features(params, x)
    return model.head(params, z) + model.head(params | head, z)
