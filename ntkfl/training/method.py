"""A federated method is composed of four parts: an objective, a gradient rule, a local rule and a server rule.

The functions that clients compute are written for one client; the engine maps them over the clients of a cohort. All
functions are pure.
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
#: (loss, parameters) -> the direction that the optimizer gets, and the value of the loss.
GradientRule = Callable[[Loss, Params], tuple[Params, Tensor]]


class Batch(NamedTuple):
    """The samples of a step: inputs x (b, ...), labels y (b, ...), and real (b,), 1 for a sample and 0 for padding."""

    x: Tensor
    y: Tensor
    real: Tensor

    def mean(self, values: Tensor) -> Tensor:
        """The mean of values (b,) over the real samples; 0 if there are none.

        Args:
            values: a value for each sample, shape (b,).
        """
        return (values * self.real).sum() / self.real.sum().clamp(min=1)


class Step(NamedTuple):
    """The data that a local step may use besides the parameters and the batch.

    Args:
        broadcast: the server's message, the same for all clients; its entry "model" is the global model.
        client: the state that this client keeps.
        counts: number of samples of each class that the client owns, (C,); (0,) for real labels.
        draws: random numbers for this client and step, uniform in [0, 1), (Method.draws,).
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
    """A client's local training, as `LocalRule.finish` gets it after the last step.

    Args:
        start: the parameters that the client has received.
        end: the parameters after the client's last step.
        difference: Delta_i = end - start.
        steps: tau_i, the number of local steps taken, a scalar tensor.
        counts: the client's class counts, as in `Step`.
        rate: the step size, as in `Step`.
        coefficient: a_i, the length of the displacement that a constant gradient of length 1 would have caused, divided
            by the rate.
    """

    start: Params
    end: Params
    difference: Params
    steps: Tensor
    coefficient: Tensor
    counts: Tensor
    rate: float


class Round(NamedTuple):
    """The number of a round (from 0), the number of clients in its cohort and in the population, and the local rate."""

    number: int
    cohort: int
    population: int
    rate: float


class Objective(Protocol):
    """The loss that an optimizer step lowers: a scalar, the mean (or the sum) over the real samples."""

    def __call__(self, model: Model, params: Params, batch: Batch, step: Step) -> Tensor: ...


def plain_gradient(loss: Loss, params: Params) -> tuple[Params, Tensor]:
    """The gradient of a loss and its value.

    Args:
        loss: parameters -> a number.
        params: the point of the gradient.

    Returns: the gradient, a dict of tensors in the shapes of the parameters, and the loss, a number.
    """
    from torch.func import grad_and_value

    return grad_and_value(loss)(params)


class LocalRule:
    """A client's computations around its steps. The defaults are FedAvg's; a method overrides some of them.

    `needs_full_gradient` says whether `begin` gets the gradient of the objective on all of the client's samples, at the
    model received. `pull` is mu if `correct` adds mu (w - w_received), the gradient of a proximal term;
    `Finish.coefficient` takes mu into account.
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
        """The parameters at which local training starts; if `Method.personal`, the client is evaluated at them too.

        Args:
            kept: the client's state between rounds.
            broadcast: the server's message, by name.
        """
        return broadcast["model"]

    def begin(self, kept: Tree, broadcast: Tree, full_gradient: Params) -> Tree:
        """The client's state within the round, which the steps get as `Step.client`.

        Args:
            kept: the client's state between rounds.
            broadcast: the server's message, by name.
            full_gradient: the gradient on all of the client's samples, by parameter; {} unless `needs_full_gradient`.
        """
        return kept

    def correct(self, gradient: Params, params: Params, step: Step) -> Params:
        """The gradient that the optimizer gets; weight decay and momentum are applied later.

        Args:
            gradient: the direction that the gradient rule returned.
            params: the client's parameters.
            step: the other data of the step.
        """
        return gradient

    def after_step(self, model: Model, before: Params, params: Params, batch: Batch, step: Step) -> tuple[Params, Tree]:
        """The parameters and the client's state after the optimizer's steps on a batch; a method may change both here.

        Args:
            model: the model, for its features and head.
            before: the parameters before the steps on the batch.
            params: the parameters after the steps on the batch.
            batch: the samples.
            step: the other data of the step; `step.client` is the client's state.

        Returns: the parameters, and the client's new state.
        """
        return params, step.client

    def relocation(self, model: Model, x: Tensor, end: Params, broadcast: Tree, now: Round) -> Relocation | None:
        """A map of parameters that is applied after a client's steps and keeps the model's function; None: no map.

        `relocation` is called outside vmap, for one client at a time. The map is also applied to the optimizer's state,
        in those parts that have the keys of the model.

        Args:
            model: the model, whose function must not change.
            x: a sample's inputs, (1, ...).
            end: the client's parameters after its steps.
            broadcast: the broadcast that the client received.
            now: the round.
        """
        return None

    def finish(self, client: Tree, broadcast: Tree, end: Finish) -> tuple[Tree, Tree]:
        """The client's uploads to the server, and the state that it keeps until its next round.

        Args:
            client: the client's state at the end of the round.
            broadcast: the server's message, by name.
            end: the client's local training in this round.

        Returns: the uploads by name, and the client's state between rounds.
        """
        return {"difference": end.difference}, client


class ServerRule:
    """The server's part of a round. The defaults are those of FedAvg.

    The state always has "model", the parameters that are broadcast and evaluated. The server gets no single upload, but
    the weighted means sum_i p_i upload_i of the clients' uploads over the cohort.

    `vectors` and `moments` name entries of the state that have the parameters' shapes and are 0 at first. The `moments`
    are running means, which `ima.averaged` may set to 0 again. `takes_differences` says whether `step` uses the mean of
    the clients' differences; `ima.averaged` needs this if its order is "before_server_step".
    """

    vectors: tuple[str, ...] = ()
    moments: tuple[str, ...] = ()
    takes_differences: bool = True

    def initial(self, params: Params) -> Tree:
        """The state before the first round.

        Args:
            params: the parameters of the model before training.
        """
        return {"model": params} | {name: zeros_like(params) for name in (*self.vectors, *self.moments)}

    def prepared(self, state: Tree, model: Model, data: "FederatedData") -> Tree:
        """The initial state, to which a method may add entries whose shapes depend on model or data.

        Class anchors in the space of features are such an entry.

        Args:
            state: the state that `initial` returned.
            model: the model that is trained.
            data: the training data.
        """
        return state

    def broadcast(self, state: Tree, number: int) -> Tree:
        """The message to every client in round `number`; it has the entry "model".

        Args:
            state: the server's state.
            number: the round, from 0.
        """
        return state

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        """The state after the round.

        Args:
            state: the state before the round.
            means: for each upload, by name, the mean sum_i p_i upload_i.
            now: the round's number and sizes.
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


# (means of the uploads, state, round) -> direction, moments
Direction = Callable[[Tree, Tree, Round], tuple[Params, Tree]]


@dataclass(frozen=True)
class ServerOptimizer(Average):
    """w <- w + server_rate * direction, where the direction is a function of the means and the server's state.

    Args:
        direction: (means of the uploads, state, round) -> the direction, and the moments after the round.
        moments: names of the entries of the state that hold moments. These entries have the parameters' shapes, are 0
            at first, and are not sent to clients.
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
        gradient: the rule by which a client computes a gradient of its loss.
        local: a client's computations around its steps.
        server: the server's step on the means of the clients' uploads.
        weighting: the weights p_i of the server's means over the cohort S. "size": n_i / sum_(j in S) n_j with the
            numbers n_i of samples; "uniform": 1 / |S|.
        weighting_of: the weighting of each upload that is not averaged by `weighting`, by the upload's name.
        draws: number of uniform random numbers that each step gets.
        needs: the method's requirements: "classes" (integer labels), "split" (a model with a head), "sgd" (local steps
            whose displacement is a sum of gradients).
        further_steps: the broadcast -> further objectives. For every batch the optimizer takes a further step on each
            of them.
        further_gradient: the gradient rule of the further objectives; None: the same rule `gradient`.
        in_turn: whether the clients of a round train one after the other, each from the server's model after the step
            on the previous client. Otherwise all clients train from the model at the beginning of the round.
        personal: whether each client is evaluated with its own model (`Federation.own_models`) and the mean over
            clients is reported. Otherwise the server's model is evaluated.
        personal_outputs: (model, the server's parameters, a client's state, inputs) -> the predictions of a client that
            uses its own state. These predictions are evaluated in addition to the server's model. None: a client has no
            predictions of its own.
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
