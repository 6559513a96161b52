"""FedRoD (Chen & Chao 2022): a balanced loss trains body and shared head, and each client keeps a personal head."""

from ntkfl.training.method import Batch, LocalRule, Method, Objective, Step, moved, plain_gradient
from ntkfl.training.model import Model
from ntkfl.training.objectives import BalancedCrossEntropy, cross_entropies, require_cross_entropy
from ntkfl.training.tree import Params, Tensor, Tree

NAME = "fedrod"
NOT_LINEAR = "its loss is a cross-entropy, of two heads"


def method(objective: Objective, *, gamma: float = 1.0) -> Method:
    """FedAvg trains body and shared head on the cross-entropy of f_c + gamma log n_c; clients also have personal heads.

    f_c is the logit of class c, and n_c the client's number of samples of class c.

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
    """A head that a client keeps. At first it is the shared head; after each batch it takes a plain gradient step.

    The step descends on the cross-entropy of the personal logits plus the shared logits, and changes only the personal
    head. As in the authors' code, the features and the shared logits are computed before the shared model's step on the
    batch.
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
    """The logits (b, C) with which a client is evaluated: the shared head's logits plus the own head's logits."""
    z = model.features(params, x)
    return model.head(params, z) + model.head(params | head, z)
