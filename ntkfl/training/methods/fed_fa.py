"""FedFA, feature anchors (Zhou et al. 2023): shared class anchors attract features and calibrate the head."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ntkfl.messages import require_number, require_size
from ntkfl.training.method import Average, Batch, Finish, LocalRule, Method, Objective, Round, Step, plain_gradient
from ntkfl.training.model import Model
from ntkfl.training.objectives import cross_entropies
from ntkfl.training.optimizers import Adam
from ntkfl.training.tree import Params, Tensor, Tree, tree_map, zeros_like

if TYPE_CHECKING:
    from ntkfl.training.federated_data import FederatedData

NAME = "fedfa"
NOT_LINEAR = "it aligns features with anchors of their classes"


def method(
    objective: Objective,
    *,
    strength: float = 0.1,
    anchor_momentum: float = 0.5,
    calibration_rate: float = 1e-3,
    calibrate_from: int = 0,
    anchor_avg: Literal["size", "present_only"] = "size",
    released: bool = False,
) -> Method:
    """From round 1 on, the loss is the objective + strength/C * sum_j |z_j - a_(y_j)|^2 / n_(y_j).

    z_j are the features of sample j of the batch, a_c the anchor of class c of C classes, and n_c the number of samples
    of class c in the batch.

    After each batch, from round `calibrate_from` on, the head takes a step of Adam on the cross-entropy of the anchors.
    At the end of a pass over its samples, a client moves the anchors of its classes: a_c <- m a_c + (1 - m) times the
    mean feature of the class. (If rounds are shorter than a pass, anchors never move.) The server averages the models
    and the anchors. With strength = calibration_rate = 0 this is FedAvg.

    Args:
        objective: the loss that clients descend.
        strength: weight of the distance between features and anchors; default 0.1.
        anchor_momentum: m; default 0.5.
        calibration_rate: rate of the head's steps of Adam; default 0.001.
        calibrate_from: the first round in which the head takes steps of Adam, counted from 0; default 0.
        anchor_avg: the clients over which the anchor of a class is averaged. "size": all clients of the cohort;
            "present_only": only clients that have samples of the class. Default: "size".
        released: whether the mean feature of a class is computed as in the authors' code. There the means of all
            batches are summed and divided by the number of batches of the pass, batches without the class included.

    Raises:
        ValueError: a negative strength, rate or round, or an anchor_momentum outside [0, 1].
    """
    require_number("strength", strength, "be 0 or more")
    require_number("calibration_rate", calibration_rate, "be 0 or more")
    require_size("calibrate_from", calibrate_from, least=0)
    require_number("anchor_momentum", anchor_momentum, "lie in [0, 1]")

    def anchored(model: Model, params: Params, batch: Batch, step: Step) -> Tensor:
        """The objective plus the weighted distance of features from the anchors of their classes.

        The distance does not depend on the head, so the gradient of the distance by the head's parameters is 0.
        """
        z, anchors = model.features(params, batch.x), step.client["anchors"]
        members = _members(batch, len(anchors))
        shares = (members / members.sum(0).clamp(min=1)).sum(1)
        distance = (shares * (z - anchors[batch.y]).square().sum(1)).sum() / len(anchors)
        loss = objective(replace(model, features=lambda params, x: z), params, batch, step)
        return loss + strength * step.broadcast["attracts"] * distance

    return Method(
        NAME,
        anchored,
        local=MovingAnchors(anchor_momentum, calibration_rate, anchor_avg == "present_only", released),
        server=AnchorMean(calibrate_from=calibrate_from),
        needs=frozenset({"classes", "split"}),
    )


@dataclass(frozen=True)
class MovingAnchors(LocalRule):
    """A client's computations with anchors.

    During a round the client's state has the anchors (C, k), the sums of features by class over the pass so far, and
    Adam's state for the head.
    """

    momentum: float
    calibration_rate: float
    present_only: bool
    released: bool

    def initial(self, model: Model, broadcast: Tree) -> Tree:
        anchors = broadcast["anchors"]
        carried = {"anchors": anchors} | zeros_like({"sums": anchors, "batches": anchors[0, 0]})
        if not self.calibration_rate:
            return carried
        moments = Adam().initial({name: broadcast["model"][name][None] for name in model.head_names})
        return carried | {"adam": tree_map(lambda value: value[0], moments)}

    def after_step(self, model: Model, before: Params, params: Params, batch: Batch, step: Step) -> tuple[Params, Tree]:
        client = step.client
        if self.calibration_rate:
            params, adam = self._calibrated(model, params, step)
            client = client | {"adam": adam}
        # sums of the features by class or, if `released`, sums of the batches' class means
        z, members = model.features(before, batch.x), _members(batch, len(client["anchors"]))
        divisor = members.sum(0).clamp(min=1) if self.released else 1.0
        sums, batches = client["sums"] + (members / divisor).T @ z, client["batches"] + 1
        means = sums / (batches if self.released else step.counts.clamp(min=1)[:, None])
        target = self.momentum * client["anchors"] + (1 - self.momentum) * means
        moves = step.ends_epoch & (step.counts > 0)
        return params, client | {
            "anchors": target.where(moves[:, None], client["anchors"]),
            "sums": sums.where(~step.ends_epoch, 0),
            "batches": batches.where(~step.ends_epoch, 0),
        }

    def finish(self, client: Tree, broadcast: Tree, end: Finish) -> tuple[Tree, Tree]:
        counted = (end.counts > 0 if self.present_only else end.counts >= 0).to(end.counts.dtype)
        anchors = counted[:, None] * client["anchors"]
        return {"difference": end.difference, "anchors": anchors, "counted": counted}, {}

    def _calibrated(self, model: Model, params: Params, step: Step) -> tuple[Params, Tree]:
        """The parameters and Adam's state after a step of the head on the anchors.

        Before round `calibrate_from` the head is not changed.
        """
        from torch import arange

        anchors = step.client["anchors"]
        classes = arange(len(anchors), device=anchors.device)
        head = {name: params[name] for name in model.head_names}
        gradient, _ = plain_gradient(lambda h: cross_entropies(model.head(params | h, anchors), classes).mean(), head)
        row, moments = (tree_map(lambda value: value[None].clone(), tree) for tree in (head, step.client["adam"]))
        Adam().step(row, tree_map(lambda g: g[None], gradient), moments, self.calibration_rate, None)
        follows = step.broadcast["calibrates"]
        moved = {name: value[0].where(follows, head[name]) for name, value in row.items()}
        return params | moved, tree_map(lambda value: value[0], moments)


@dataclass(frozen=True)
class AnchorMean(Average):
    """FedAvg that also averages the anchors. A class without a contributing client keeps its anchor."""

    calibrate_from: int = 0

    def prepared(self, state: Tree, model: Model, data: "FederatedData") -> Tree:
        features = model.features(state["model"], data.x[:1])
        return state | {"anchors": _first_anchors(data.classes or 0, features.shape[1]).to(features)}

    def broadcast(self, state: Tree, number: int) -> Tree:
        anchors = state["anchors"]
        attracts, calibrates = (anchors.new_tensor(float(number >= first)) for first in (1, self.calibrate_from))
        return state | {"attracts": attracts, "calibrates": calibrates > 0}

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        counted = means["counted"][:, None]
        mean = means["anchors"] / counted.where(counted > 0, 1)
        return super().step(state, means, now) | {"anchors": mean.where(counted > 0, state["anchors"])}


def _first_anchors(classes: int, size: int) -> Tensor:
    """The unit vectors of the first axes, (classes, size), or random directions if there are more classes than axes.

    The first anchors are the same in every run.
    """
    import torch

    if classes <= size:
        return torch.eye(classes, size, dtype=torch.float64)
    directions = torch.randn(classes, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return directions / directions.norm(dim=1, keepdim=True)


def _members(batch: Batch, classes: int) -> Tensor:
    """A matrix (b, classes) with 1 where a sample has the class, and 0 elsewhere and for padding."""
    from torch import arange

    return (batch.y[:, None] == arange(classes, device=batch.y.device)) * batch.real[:, None]
