"""A federated method as four parts that compose: objective, gradient rule, local rule, server rule.

Everything here is written for one client; the engine maps it over the clients of a cohort. All functions are pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from ntkfl.messages import require_number
from ntkfl.training.model import Model
from ntkfl.training.tree import Params, Tensor, Tree, tree_map, zeros_like

if TYPE_CHECKING:
    from ntkfl.training.federated_data import FederatedData

Weighting = Literal["size", "uniform"]
Loss = Callable[[Params], Tensor]
Relocation = Callable[[Params], Params]
#: The direction that the optimizer gets, and the objective's value.
GradientRule = Callable[[Loss, Params], tuple[Params, Tensor]]


class Batch(NamedTuple):
    """The samples of a step: x (b, ...), y (b, ...), and real (b,), which is 1 for a sample and 0 for padding."""

    x: Tensor
    y: Tensor
    real: Tensor

    def mean(self, values: Tensor) -> Tensor:
        """The mean of values (b,), one for each sample, over the real samples; 0 if there are none.

        Args:
            values: a value for each sample, shape (b,).
        """
        return (values * self.real).sum() / self.real.sum().clamp(min=1)


class Step(NamedTuple):
    """The data that a local step may use besides its parameters.

    Args:
        broadcast: the server's message, the same for all clients; "model" is the model from which every client starts.
        client: the state that this client keeps.
        counts: samples of each class that the client owns, (C,); (0,) for real labels.
        draws: numbers uniform in [0, 1) for this client and step, (Method.draws,).
        ends_epoch: whether this is the last step of a pass over the client's samples.
        rate: the local learning rate.
    """

    broadcast: Tree
    client: Tree
    counts: Tensor
    draws: Tensor
    ends_epoch: Tensor
    rate: float


class Finish(NamedTuple):
    """A client's round after its steps.

    Args:
        start: the parameters received.
        end: the parameters reached.
        difference: Delta_i = end - start.
        steps: local steps taken, tau_i, a scalar tensor.
        counts: the client's class counts, as in `Step`.
        rate: the step size, as in `Step`.
        coefficient: a_i, the displacement over the rate that a constant unit gradient would have caused.
    """

    start: Params
    end: Params
    difference: Params
    steps: Tensor
    coefficient: Tensor
    counts: Tensor
    rate: float


class Round(NamedTuple):
    """The server's view of a round: its number from 0, the cohort's and the population's size, the local rate."""

    number: int
    cohort: int
    population: int
    rate: float


class Objective(Protocol):
    """The loss that an optimizer step lowers: a scalar, the mean (or the sum) over the real samples of the batch."""

    def __call__(self, model: Model, params: Params, batch: Batch, step: Step) -> Tensor: ...


def plain_gradient(loss: Loss, params: Params) -> tuple[Params, Tensor]:
    """The gradient of a loss and its value.

    Args:
        loss: parameters -> a number.
        params: the point of the gradient.

    Returns: the gradient by parameter, each in its shape, and the loss, a number.
    """
    from torch.func import grad_and_value

    return grad_and_value(loss)(params)


class LocalRule:
    """A client's computations around its steps. The defaults are FedAvg's; a method overrides some of them.

    `needs_full_gradient`: whether `begin` gets the objective's gradient, at the model received, on all of its samples.
    `pull`: mu, where `correct` adds mu (w - w received), so that `Finish.coefficient` takes it into account.
    """

    needs_full_gradient: bool = False
    pull: float = 0.0

    def initial(self, model: Model, broadcast: Tree) -> Tree:
        """A client's state at its first participation.

        Args:
            model: the model that is trained.
            broadcast: the server's message, by name.
        """
        return {}

    def start(self, kept: Tree, broadcast: Tree) -> Params:
        """The parameters at which local training starts; a personal method is evaluated at these parameters.

        Args:
            kept: the client's state between rounds.
            broadcast: the server's message, by name.
        """
        return broadcast["model"]

    def begin(self, kept: Tree, broadcast: Tree, full_gradient: Params) -> Tree:
        """The client's state within the round, for `Step.client`; the full gradient is {} if the rule does not need it.

        Args:
            kept: the client's state between rounds.
            broadcast: the server's message, by name.
            full_gradient: by parameter, or {}.
        """
        return kept

    def correct(self, gradient: Params, params: Params, step: Step) -> Params:
        """The gradient for the optimizer, before weight decay and momentum.

        Args:
            gradient: the gradient rule's.
            params: the client's parameters.
            step: the other data of the step.
        """
        return gradient

    def after_step(self, model: Model, before: Params, params: Params, batch: Batch, step: Step) -> tuple[Params, Tree]:
        """The parameters and the client's state after the optimizer's steps on a batch.

        Args:
            model: the model, for its features and head.
            before: the parameters before the steps on the batch.
            params: the parameters after them.
            batch: the samples.
            step: the other data of the step; `step.client` is the client's state.

        Returns: the parameters, and the client's new state.
        """
        return params, step.client

    def relocation(self, model: Model, x: Tensor, end: Params, broadcast: Tree, now: Round) -> Relocation | None:
        """A map that moves the client's model, after its steps, to another point of the same function; None: it stays.

        This function is called outside vmap, for one client at a time. An optimizer's state that stays with the client
        is moved too.

        Args:
            model: the model whose function stays.
            x: a sample's inputs, (1, ...).
            end: the client's parameters after its steps.
            broadcast: the broadcast that the client received.
            now: the round.
        """
        return None

    def finish(self, client: Tree, broadcast: Tree, end: Finish) -> tuple[Tree, Tree]:
        """The client's uploads, by name, and its state between rounds.

        Args:
            client: the client's state at the end of the round.
            broadcast: the server's message, by name.
            end: the client's round.

        Returns: the uploads by name, and the client's state between rounds.
        """
        return {"difference": end.difference}, client


class ServerRule:
    """The server's part of a round. The defaults are those of FedAvg.

    The state always has "model", the parameters that are broadcast and evaluated. The server sees only weighted means
    of the clients' uploads: sum_i p_i upload_i over the cohort.

    `vectors` names the parts of the state that have the parameters' shapes and start at 0. `moments` names the running
    means among them, which `ima.averaged` may set to 0 again. `takes_differences` says that `step` uses the mean of the
    clients' differences; `ima.averaged` needs that.
    """

    vectors: tuple[str, ...] = ()
    moments: tuple[str, ...] = ()
    takes_differences: bool = True

    def initial(self, params: Params) -> Tree:
        """The state before the first round.

        Args:
            params: the model's, before training.
        """
        return {"model": params} | {name: zeros_like(params) for name in (*self.vectors, *self.moments)}

    def prepared(self, state: Tree, model: Model, data: "FederatedData") -> Tree:
        """The state with further entries whose shape depends on model or data, such as class anchors in feature space.

        Args:
            state: the state of `initial`.
            model: the model that is trained.
            data: the training data.
        """
        return state

    def broadcast(self, state: Tree, number: int) -> Tree:
        """The message to every client in round `number`; it contains "model".

        Args:
            state: the server's.
            number: the round, from 0.
        """
        return state

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        """The state after the round.

        Args:
            state: before the round.
            means: sum_i p_i upload_i of each upload, by name.
            now: the number of the round, and the number of its clients.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Average(ServerRule):
    """w <- w + server_rate * mean of the differences."""

    server_rate: float = 1.0

    def __post_init__(self) -> None:
        require_number("server_rate", self.server_rate, "be positive")

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        return state | {"model": moved(state["model"], means["difference"], self.server_rate)}


Direction = Callable[[Tree, Tree, Round], tuple[Params, Tree]]  # (means, state, round) -> direction, state


@dataclass(frozen=True)
class ServerOptimizer(Average):
    """w <- w + server_rate * direction, where the direction is a function of the means and the server's state.

    Args:
        direction: (means of the uploads, state, round) -> the direction, and the moments after the round.
        moments: names of the entries of the state that hold moments, in the parameters' shapes, 0 at first. Clients do
            not get them.
    """

    _: KW_ONLY
    direction: Direction
    moments: tuple[str, ...] = ()

    def broadcast(self, state: Tree, number: int) -> Tree:
        return {"model": state["model"]}

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        direction, moments = self.direction(means, state, now)
        return super().step(state, {"difference": direction}, now) | moments


def moved(params: Params, direction: Params, scale: float = 1.0) -> Params:
    """params + scale * direction.

    Args:
        params: tensors by name.
        direction: a dict of the same names and shapes.
        scale: a number; default 1.
    """
    return tree_map(lambda w, d: w + (d if scale == 1 else scale * d), params, direction)


@dataclass(frozen=True)
class Method:
    """A federated method.

    Args:
        name: as on the command line.
        objective: the loss that clients descend.
        gradient: how a client computes a gradient.
        local: a client's computations around its steps.
        server: the server's step on the clients' updates.
        weighting: the weights p_i of the server's means: n_i / sum n_j over the cohort, or 1 / |S|.
        weighting_of: other weightings, by the name of an upload.
        draws: number of uniform numbers for each step.
        needs: the method's requirements: "classes" (integer labels), "split" (a model with a head), "sgd" (local steps
            whose displacement is a sum of gradients).
        further_steps: further objectives, which depend on the broadcast; on each of them the optimizer takes a further
            step for every batch.
        further_gradient: the gradient rule of these objectives; None: `gradient`.
        in_turn: whether the clients of a round train one after the other, each from the server's model after the client
            before; otherwise all train from the model at the beginning of the round.
        personal: whether each client is evaluated with its own model (`Federation.own_models`) and the mean is
            reported, in place of the server's model.
        personal_outputs: (model, the server's parameters, a client's state, inputs) -> outputs: the predictions of a
            client with a state, which are evaluated beside the server's model.
        options: the options of the method with their defaults; `ntkfl.training.methods.build` sets them.
    """

    name: str
    objective: Objective
    gradient: GradientRule = plain_gradient
    local: LocalRule = field(default_factory=LocalRule)
    server: ServerRule = field(default_factory=Average)
    weighting: Weighting = "size"
    weighting_of: Mapping[str, Weighting] = field(default_factory=dict)
    draws: int = 0
    needs: frozenset[str] = frozenset()
    further_steps: Callable[[Tree], tuple[Objective, ...]] = lambda broadcast: ()
    further_gradient: GradientRule | None = None
    in_turn: bool = False
    personal: bool = False
    personal_outputs: Callable[[Model, Params, Tree, Tensor], Tensor] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
