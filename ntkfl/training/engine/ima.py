"""IMA, iterative moving averaging, around any method: the server broadcasts the mean of its last models."""

from dataclasses import dataclass, replace
from operator import sub
from typing import TYPE_CHECKING, Literal

from ntkfl.messages import require_size
from ntkfl.training.method import Method, Round, ServerRule, moved
from ntkfl.training.model import Model
from ntkfl.training.tree import Params, Tree, newest_first, tree_map, zeros_like

if TYPE_CHECKING:
    from ntkfl.training.federated_data import FederatedData

Order = Literal["after_server_step", "before_server_step"]


def averaged(
    method: Method, window: int, start: int, order: Order = "after_server_step", restart: bool = False
) -> Method:
    """The method with a moving average: after `start` rounds its model is the mean of the last `window` server models.

    The mean is broadcast and evaluated, and in the next round the clients' differences and the server's step start from
    the mean. IMA's schedule of step sizes is `schedules.MildExploration`.

    `start` is the paper's t_s. The paper takes .75 of all rounds; the released code starts one round later. The paper's
    order is "after_server_step": the mean is taken over the models after the server's steps. The released code has the
    order "before_server_step" for adaptive servers: each round gives the mean of its clients' models, these means are
    averaged over the last `window` rounds, and the server's rule takes a step towards the result. `restart` sets the
    moments of the server's rule, such as FedAdam's, to zero in the first round that ends with an averaged model.

    Raises:
        ValueError: a window below 1 or a start below 0; clients that train in turn; `order` "before_server_step" for a
            method whose server takes no differences; `restart` for a server without moments.

    Source: IMA, eq. 5 and Algorithm 1.
    """
    require_size("the window of models", window)
    require_size("the number of rounds before averaging", start, least=0)
    if method.in_turn:
        raise ValueError(f"{method.name} makes a model for every client in turn; IMA averages one model of each round")
    if order == "before_server_step" and not method.server.takes_differences:
        raise ValueError(
            f"clients of {method.name} do not send their differences, so their models have no mean that order "
            "'before_server_step' could average; take 'after_server_step'"
        )
    if restart and not method.server.moments:
        raise ValueError(f"restart is for a server with moments, as FedAdam's; that of {method.name} has none")
    rule = MovingAverage(method.server, window, start, order == "before_server_step", restart)
    return replace(method, name=f"{method.name}+ima", server=rule)


@dataclass(frozen=True)
class MovingAverage(ServerRule):
    """The server's rule.

    Its state has "model", which is broadcast; "rule", the rest of the inner rule's state; and "window", the last
    models, newest first.
    """

    inner: ServerRule
    window: int
    start: int
    before: bool
    restart: bool

    def initial(self, params: Params) -> Tree:
        return _state(self.inner.initial(params), tree_map(lambda w: w[None][:0], params))

    def prepared(self, state: Tree, model: Model, data: "FederatedData") -> Tree:
        return _state(self.inner.prepared(_inner(state), model, data), state["window"])

    def broadcast(self, state: Tree, number: int) -> Tree:
        return self.inner.broadcast(_inner(state), number)

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        averages = now.number + 1 >= self.start
        if self.restart and now.number + 1 == self.start:
            fresh = {name: zeros_like(state["rule"][name]) for name in self.inner.moments}
            state = state | {"rule": state["rule"] | fresh}
        if not self.before:
            after = self.inner.step(_inner(state), means, now)
            window = self._pushed(state, after["model"])
            return _state(after | {"model": _mean(window)} if averages else after, window)
        window = self._pushed(state, moved(state["model"], means["difference"]))
        if averages:
            means = means | {"difference": tree_map(sub, _mean(window), state["model"])}
        return _state(self.inner.step(_inner(state), means, now), window)

    def _pushed(self, state: Tree, params: Params) -> Params:
        return tree_map(lambda rows: rows[: self.window], newest_first(params, state["window"]))


def _inner(state: Tree) -> Tree:
    return state["rule"] | {"model": state["model"]}


def _state(inner: Tree, window: Params) -> Tree:
    return {"model": inner["model"], "rule": {k: v for k, v in inner.items() if k != "model"}, "window": window}


def _mean(window: Params) -> Params:
    return tree_map(lambda rows: rows.mean(0), window)
