"""FedGuCci: clients also lower the loss on segments between their model and the last global models received."""

from dataclasses import dataclass
from typing import Literal

from ntkfl.messages import require_number, require_size
from ntkfl.training.method import Average, Batch, LocalRule, Method, Objective, Round, Step
from ntkfl.training.methods.local import Unmoved
from ntkfl.training.model import Model
from ntkfl.training.tree import Params, Tensor, Tree, newest_first, row_of, tree_map

NAME = "fedgucci"

Steps = Literal["joint", "sequential"]
Alpha = Literal["uniform", "half", "gauss2"]
History = Literal["server", "client"]
GAUSS2 = 0.5 - 12**-0.5, 0.5 + 12**-0.5  # Gauss's two nodes on [0, 1], each of weight 1/2; exact for cubic polynomials


def method(
    objective: Objective,
    *,
    beta: float = 0.1,
    anchors: int = 1,
    alpha: Alpha | None = None,
    step: Steps | None = None,
    anchor_history: History = "server",
    released: bool = False,
) -> Method:
    """The loss L(w) + beta * the mean over anchors a of E L(alpha w + (1 - alpha) a), with alpha uniform on [0, 1].

    Anchors are the last global models received, the current model included. If t models have been received so far,
    there are min(t, anchors) of them. beta = 0 is FedAvg. With sequential steps, beta = 0 is FedAvg only without
    momentum and weight decay, since the optimizer takes a further step for each anchor.

    Args:
        objective: L, the loss that clients descend.
        beta: weight of the connectivity loss; default 0.1.
        anchors: the largest number of anchors; default 1.
        alpha: the values of alpha. "uniform": one random draw for each step and anchor; "half": 1/2; "gauss2": the mean
            over Gauss's two nodes. None: uniform, or half if `released`.
        step: "joint": one step on the sum; "sequential": a step on L and then a step on the term of each anchor, the
            newest anchor first. None: joint, or sequential if `released`.
        anchor_history: "server": the anchors are the models that the server has sent in the last rounds; "client": each
            client has the models of its own last rounds as anchors; default server.
        released: whether the defaults of `alpha` and `step` are those of the authors' code.

    Raises:
        ValueError: a negative beta, no anchor, or sequential steps if clients may have different numbers of anchors.

    Source: FedGuCci, eq. 7 and 12 (KDD 2025); fedgucci/F12, fedgucci/F19.
    """
    alpha, step = alpha or ("half" if released else "uniform"), step or ("sequential" if released else "joint")
    require_number("beta, the weight of the connectivity loss,", beta, "be 0 or more")
    require_size("anchors", anchors)
    own = anchor_history == "client"
    if own and step == "sequential":
        raise ValueError(
            "anchor_history is 'client' and step 'sequential'; clients that hold unlike numbers of anchors cannot take "
            "one step on each together: take 'joint', or the history 'server'"
        )

    terms = tuple(Segment(objective, beta, alpha, place) for place in range(anchors))

    def joint(model: Model, params: Params, batch: Batch, step: Step) -> Tensor:
        """The objective plus a term for each anchor that exists so far."""
        loss = objective(model, params, batch, step)
        for term in terms[: _count(_holder(step))]:
            loss = loss + term(model, params, batch, step)
        return loss

    return Method(
        NAME,
        joint if step == "joint" else objective,
        local=OwnAnchors(anchors) if own else LocalRule(),
        server=Average() if own else RecentModels(anchors=anchors),
        draws=anchors if alpha == "uniform" else 0,
        further_steps=lambda broadcast: terms[: _count(broadcast)] if step == "sequential" else (),
    )


@dataclass(frozen=True)
class Segment:
    """The term of one anchor, beta/count E L(alpha w + (1 - alpha) a), with the number `count` of anchors.

    The anchor at `place` 0 is the newest.
    """

    objective: Objective
    beta: float
    alpha: Alpha
    place: int

    def __call__(self, model: Model, params: Params, batch: Batch, step: Step) -> Tensor:
        holder = _holder(step)
        anchor = row_of(holder["anchors"], self.place)

        def between(alpha: "Tensor | float") -> Tensor:
            return self.objective(
                model, tree_map(lambda w, a: alpha * w + (1 - alpha) * a, params, anchor), batch, step
            )

        if self.alpha == "gauss2":
            mean = (between(GAUSS2[0]) + between(GAUSS2[1])) / 2
        else:
            mean = between(step.draws[self.place] if self.alpha == "uniform" else 0.5)
        if "held" not in holder:
            return self.beta / _count(holder) * mean
        return (self.beta / holder["held"]).where(self.place < holder["held"], 0) * mean


@dataclass(frozen=True)
class RecentModels(Average):
    """FedAvg's server that also keeps the last models that it has sent, newest first, and sends them as anchors."""

    anchors: int = 1

    def initial(self, params: Params) -> Tree:
        return {"model": params, "sent": tree_map(lambda w: w[None][:0], params)}

    def broadcast(self, state: Tree, number: int) -> Tree:
        return {"model": state["model"], "anchors": self._with_current(state)}

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        sent = tree_map(lambda rows: rows[: self.anchors - 1], self._with_current(state))
        return super().step(state, means, now) | {"sent": sent}

    def _with_current(self, state: Tree) -> Params:
        return newest_first(state["model"], state["sent"])


@dataclass(frozen=True)
class OwnAnchors(LocalRule):
    """A client keeps the models that it has received, newest first.

    Only the first rows of these models are used; the entry "held" is the number of rows that are used.
    """

    anchors: int

    def initial(self, model: Model, broadcast: Tree) -> Tree:
        rows = tree_map(lambda w: w.expand(self.anchors, *w.shape), broadcast["model"])
        return {"anchors": rows, "held": next(iter(rows.values())).new_zeros(())}

    def begin(self, kept: Tree, broadcast: Tree, full_gradient: Params) -> Tree:
        rows = newest_first(broadcast["model"], tree_map(lambda old: old[:-1], kept["anchors"]))
        return {"anchors": rows, "held": (kept["held"] + 1).clamp(max=self.anchors)}


@dataclass(frozen=True, eq=False)
class Anchored(Unmoved):
    """A server whose state never changes and that sends one given anchor."""

    anchor: Params

    def broadcast(self, state: Tree, number: int) -> Tree:
        return state | {"anchors": tree_map(lambda w: w[None], self.anchor)}


def _holder(step: Step) -> Tree:
    """The dict that has the anchors: the client's state or the broadcast."""
    return step.client if "anchors" in step.client else step.broadcast


def _count(holder: Tree) -> int:
    """The number of rows of the anchors."""
    return len(next(iter(holder["anchors"].values())))
