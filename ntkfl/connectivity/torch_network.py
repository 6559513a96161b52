"""Any torch module as a network that can be averaged: only its weights and its outputs are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from ntkfl.problem import finite_array


@dataclass(frozen=True, eq=False)
class TorchNetwork:
    """A torch module with weights of its own, evaluated in evaluation mode and without gradients.

    Args:
        module: gives the architecture; it is neither trained nor changed, and many networks may share it.
        state: parameters and buffers by name, as `module.state_dict()` has them. Entries that are no real numbers, such
            as batch norm's counters, are no weights: `at` keeps them. Batch norm's running averages are weights, and
            are averaged. A tied weight counts once for each of its names.

    Raises:
        ValueError: names or shapes that are not the module's, or a weight that is not finite.
    """

    module: nn.Module
    state: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        own, given = ({name: value.shape for name, value in s.items()} for s in (self.module.state_dict(), self.state))
        wrong = sorted(name for name in own | given if own.get(name) != given.get(name))
        if wrong:
            raise ValueError(f"the state does not fit the module: {', '.join(wrong)} differs in name or shape")
        for name in dict(self.module.named_parameters()):
            if self.state[name].is_complex():
                raise ValueError(f"weight {name} is complex; every weight must be a real number")
        for name, value in self._weights():
            if not bool(torch.isfinite(value).all()):
                raise ValueError(f"weight {name} has an entry that is not finite; every weight must be finite")
        object.__setattr__(self, "state", {name: value.detach().clone() for name, value in self.state.items()})

    @classmethod
    def of(cls, module: nn.Module) -> TorchNetwork:
        """The module with the weights that it has now.

        Args:
            module: a torch module; neither trained nor changed.
        """
        return cls(module, module.state_dict())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights, by name."""
        return {name: tuple(value.shape) for name, value in self._weights()}

    def vector(self) -> Float[np.ndarray, " S"]:
        """All weights, float64."""
        return np.concatenate([value.double().cpu().numpy().ravel() for _, value in self._weights()])

    def at(self, vector: Float[np.ndarray, " S"]) -> TorchNetwork:
        """The network of this shape with these weights, in the types that they had.

        Args:
            vector: the weights, shape (S,).

        Raises:
            ValueError: a vector of another shape.
        """
        weights = self._weights()
        sizes, vector = [value.numel() for _, value in weights], finite_array("vector", vector)
        if np.shape(vector) != (sum(sizes),):
            raise ValueError(f"the weights have shape {np.shape(vector)}; this network has ({sum(sizes)},)")
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        replaced = {n: torch.as_tensor(p).reshape(v.shape).to(v) for (n, v), p in zip(weights, parts, strict=True)}
        return TorchNetwork(self.module, {**self.state, **replaced})

    def outputs(self, x: Tensor | np.ndarray) -> Float[np.ndarray, ...]:
        """The module's outputs, (n,) or (n, C), float64; an array of inputs takes the type of the first weight.

        Args:
            x: inputs of samples, a tensor or an array.
        """
        with torch.no_grad():
            return self.evaluated(self.state, self.inputs(x)).double().cpu().numpy()

    def inputs(self, x: Tensor | np.ndarray) -> Tensor:
        """The inputs as the module gets them, (n, ...).

        Args:
            x: inputs of samples, a tensor or an array.
        """
        if not isinstance(x, Tensor):
            # copied, since torch warns of read-only arrays
            return torch.as_tensor(finite_array("x", x).copy()).to(self._weights()[0][1])
        if x.is_complex() or not bool(torch.isfinite(x).all()):
            finite_array("x", x)  # raises the error that names what is wrong
        return x

    def evaluated(self, weights: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """The module's outputs, (n, ...), with these weights in place of its own; other weights stay.

        Args:
            weights: tensors by name.
            inputs: as `inputs` gives them.
        """
        training = {part: part.training for part in self.module.modules()}
        self.module.eval()
        try:
            outputs: Tensor = torch.func.functional_call(
                self.module, {**self.state, **weights}, (inputs,), tie_weights=False
            )
        finally:
            for part, was in training.items():
                part.training = was
        return outputs

    def tied(self) -> list[list[str]]:
        """The names of weights that are one tensor of the module."""
        names: dict[int, list[str]] = {}
        for every in (self.module.named_parameters, self.module.named_buffers):
            for name, value in every(remove_duplicate=False):
                names.setdefault(id(value), []).append(name)
        return [group for group in names.values() if len(group) > 1]

    def _weights(self) -> list[tuple[str, Tensor]]:
        return [(name, value) for name, value in self.state.items() if value.is_floating_point()]
