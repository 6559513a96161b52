"""Local optimizers, which change the stacked parameters of several clients in place, a row for each client.

If a client has fewer steps than others, the remaining steps do not change its parameters, moments and counters at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ntkfl.messages import require_number
from ntkfl.training.tree import Params, Tensor, Tree, one_a_row, zeros_like


class Optimizer(Protocol):
    """An optimizer of stacked parameters (clients, ...)."""

    def initial(self, params: Params) -> Tree:
        """The state before the clients' first step, with a row for each client.

        Args:
            params: the parameters by name, with a row for each client, shape (clients, ...).
        """

    def step(self, params: Params, gradient: Params, state: Tree, rate: float, active: Tensor | None) -> None:
        """Take a step: change `params` and `state` in place, in the rows of the active clients.

        Args:
            params: the parameters by name, with a row for each client, shape (clients, ...).
            gradient: the gradients, in the shapes of the parameters.
            state: the state of the same clients, as `initial` returns it.
            rate: the step size.
            active: whether each client takes this step, (clients,); the rows of other clients are not changed. None:
                all clients take it.
        """

    def coefficient(self, steps: Tensor, pull: float = 0.0) -> Tensor:
        """a_i, (clients,): the displacement by these steps along a constant gradient of length 1, divided by the rate.

        Args:
            steps: numbers of steps, shape (clients,).
            pull: the rate times mu, where mu is the strength of a proximal term. In each step the term takes back this
                share of the displacement. Default 0: no proximal term.
        """


@dataclass(frozen=True)
class SGD(Optimizer):
    """v <- momentum v + g + weight_decay w; w <- w - rate v.

    Args:
        clip: the largest Euclidean norm of a client's gradient; a longer gradient is shortened to this norm. None: no
            limit.
        factors: factors on the rate of the first, second, ... step. The last factor holds for all later steps. (): no
            factors. Steps are counted from the call of `initial` that made the state.
        of: a map from the names of some parameters to factors. The steps of such a parameter are multiplied by its
            factor. All other parameters have the factor 1.
    """

    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None
    factors: tuple[float, ...] = ()
    of: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        require_number("momentum", self.momentum, "lie in [0, 1)")
        if any(not 0 < factor < float("inf") for factor in self.factors):
            raise ValueError(f"the factors of the steps are {self.factors}; each must be positive and finite")
        if any(not 0 < factor < float("inf") for factor in self.of.values()):
            raise ValueError(f"the factors of parameters are {dict(self.of)}; each must be positive and finite")
        _check_decay_and_clip(self.weight_decay, self.clip)

    def initial(self, params: Params) -> Tree:
        state: Tree = {"velocity": zeros_like(params)} if self.momentum else {}
        if self.factors:
            some = next(iter(params.values()))
            state["taken"] = some.new_zeros(len(some)).long()
        return state

    def step(self, params: Params, gradient: Params, state: Tree, rate: float, active: Tensor | None) -> None:
        import torch

        gradient = _prepared(params, gradient, self.weight_decay, self.clip)
        if self.of:
            gradient = {name: self.of.get(name, 1.0) * value for name, value in gradient.items()}
        if active is None and not self.factors:
            values, directions = list(params.values()), [gradient[name] for name in params]
            if self.momentum:
                velocities = [state["velocity"][name] for name in params]
                # torch.add takes one pass over the numbers; a product and then a sum would take two
                for velocity, direction in zip(velocities, directions, strict=True):
                    torch.add(direction, velocity, alpha=self.momentum, out=velocity)
                directions = velocities
            torch._foreach_sub_(values, directions, alpha=rate)
            return
        for name, value in params.items():
            direction = gradient[name]
            if self.momentum:
                velocity = state["velocity"][name]
                _assign(velocity, torch.add(direction, velocity, alpha=self.momentum), active)
                direction = velocity
            _assign(value, value - self._size(value, state, rate) * direction, active)
        if self.factors:
            _assign(state["taken"], state["taken"] + 1, active)

    def _size(self, value: Tensor, state: Tree, rate: float) -> Tensor | float:
        """The size of the next step: a number, or a number for each row of `value`."""
        if not self.factors:
            return rate
        factors = value.new_tensor(self.factors)
        return rate * one_a_row(factors[state["taken"].clamp(max=len(factors) - 1)], value)

    def coefficient(self, steps: Tensor, pull: float = 0.0) -> Tensor:
        m = self.momentum
        if not pull and not self.factors:
            return (steps - m * (1 - m**steps) / (1 - m)) / (1 - m)
        displacement = velocity = 0 * steps
        for step in range(int(steps.max())):
            velocity = m * velocity + 1 - pull * displacement
            factor = self.factors[min(step, len(self.factors) - 1)] if self.factors else 1.0
            displacement = (displacement + factor * velocity).where(step < steps, displacement)
        return displacement


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam with bias correction, its weight decay added to the gradient (Kingma & Ba 2015)."""

    first: float = 0.9
    second: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    clip: float | None = None

    def __post_init__(self) -> None:
        for name, decay in (("first", self.first), ("second", self.second)):
            require_number(f"{name}, a decay of Adam,", decay, "lie in [0, 1)")
        require_number("epsilon", self.epsilon, "be positive")
        _check_decay_and_clip(self.weight_decay, self.clip)

    def initial(self, params: Params) -> Tree:
        some = next(iter(params.values()))
        return {"first": zeros_like(params), "second": zeros_like(params), "count": some.new_zeros(len(some))}

    def step(self, params: Params, gradient: Params, state: Tree, rate: float, active: Tensor | None) -> None:
        gradient = _prepared(params, gradient, self.weight_decay, self.clip)
        _assign(state["count"], state["count"] + 1, active)
        for name, value in params.items():
            g, first, second = gradient[name], state["first"][name], state["second"][name]
            _assign(first, first.lerp(g, 1 - self.first), active)
            _assign(second, second.lerp(g * g, 1 - self.second), active)
            count = one_a_row(state["count"].clamp(min=1), value)
            mean, scale = first / (1 - self.first**count), second / (1 - self.second**count)
            _assign(value, value - rate * mean / (scale.sqrt() + self.epsilon), active)

    def coefficient(self, steps: Tensor, pull: float = 0.0) -> Tensor:
        """The number of steps, (clients,), since Adam's displacement has the sign of the gradient, but not its size.

        Args:
            steps: numbers of steps, shape (clients,).
            pull: not used; default 0.
        """
        return steps


def _prepared(params: Params, gradient: Params, weight_decay: float, clip: float | None) -> Params:
    """The gradient, clipped for each client separately, with weight decay added."""
    if clip is not None:
        shrink = clip / squared_norms(gradient).sqrt().clamp(min=clip)
        gradient = {name: g * one_a_row(shrink, g) for name, g in gradient.items()}
    if weight_decay:
        gradient = {name: g + weight_decay * params[name] for name, g in gradient.items()}
    return gradient


def squared_norms(stacked: Params) -> Tensor:
    """The squared Euclidean norm of each client's row, over all parameters together, (clients,).

    Args:
        stacked: tensors by name, with a row for each client.
    """
    import torch

    norms = [torch.linalg.vector_norm(value.flatten(1), dim=1) for value in stacked.values()]
    return torch.stack(norms).square().sum(0)


def _assign(target: Tensor, value: Tensor, active: Tensor | None) -> None:
    target.copy_(value if active is None else value.where(one_a_row(active, value), target))


def _check_decay_and_clip(weight_decay: float, clip: float | None) -> None:
    require_number("weight_decay", weight_decay, "be 0 or more")
    if clip is not None and not clip > 0:
        raise ValueError(f"clip is {clip:g}; it must be positive, or None")
