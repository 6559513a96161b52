"""Two-layer ReLU networks f(x) = readout . relu(hidden x), with or without biases, as points that can be averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from jaxtyping import Float

from ntkfl.problem import finite_array


class Shaped(Protocol):
    """A network with weights of known shapes."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight of the network, by name."""


class Averageable(Shaped, Protocol):
    """A network that can be evaluated, and averaged in weight space.

    `TwoLayer` and `TorchNetwork` are such networks.
    """

    def vector(self) -> Float[np.ndarray, " S"]:
        """All weights as one vector, (S,)."""

    def at(self, vector: Float[np.ndarray, " S"]) -> Self:
        """The network of the same shape with these weights.

        Args:
            vector: the weights, shape (S,).
        """

    def outputs(self, x: Any) -> Float[np.ndarray, ...]:
        """f(x), (n,) or (n, C).

        Args:
            x: inputs, as the network takes them.
        """


AnyNetwork = TypeVar("AnyNetwork", bound=Averageable)


@dataclass(frozen=True, eq=False)
class TwoLayer:
    """A network of h hidden units on l features.

    Args:
        hidden: U, (h, l).
        readout: v, (h,) for one output, (C, h) for C outputs.

    Raises:
        ValueError: the shapes do not fit, or a weight is not finite.
    """

    hidden: Float[np.ndarray, "h l"]
    readout: Float[np.ndarray, ...]

    def __post_init__(self) -> None:
        hidden, readout = finite_array("hidden", self.hidden), finite_array("readout", self.readout)
        if hidden.ndim != 2 or 0 in hidden.shape:
            raise ValueError(f"the hidden weights have shape {hidden.shape}; they must be (h, l)")
        if readout.ndim not in (1, 2) or readout.shape[-1] != len(hidden) or 0 in readout.shape:
            raise ValueError(
                f"the readout has shape {readout.shape}; with {len(hidden)} hidden units it must be ({len(hidden)},) "
                f"or (C, {len(hidden)})"
            )
        for name, weights in (("hidden", hidden), ("readout", readout)):
            object.__setattr__(self, name, weights)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the two layers' weights."""
        return {"hidden": self.hidden.shape, "readout": self.readout.shape}

    @property
    def size(self) -> int:
        """Number of parameters, S."""
        return self.hidden.size + self.readout.size

    @property
    def n_outputs(self) -> int:
        """The number of outputs C; 1 for a scalar network."""
        return 1 if self.readout.ndim == 1 else len(self.readout)

    def outputs(self, x: Float[np.ndarray, "n l"]) -> Float[np.ndarray, ...]:
        """f(x), (n,) for one output, (n, C) for C outputs.

        Args:
            x: inputs, shape (n, l).
        """
        return np.maximum(checked_inputs(self, x) @ self.hidden.T, 0) @ self.readout.T

    def vector(self) -> Float[np.ndarray, " S"]:
        """All parameters as one vector, (S,): first the hidden weights, then the readout."""
        return np.concatenate([self.hidden.ravel(), self.readout.ravel()])

    def at(self, vector: Float[np.ndarray, " S"]) -> TwoLayer:
        """The network of the same shape with these parameters.

        Args:
            vector: the weights, shape (S,).

        Raises:
            ValueError: the vector has another shape.
        """
        vector = finite_array("vector", vector)
        if vector.shape != (self.size,):
            raise ValueError(f"the parameters have shape {vector.shape}; this network has ({self.size},)")
        hidden, readout = vector[: self.hidden.size], vector[self.hidden.size :]
        return TwoLayer(hidden.reshape(self.hidden.shape), readout.reshape(self.readout.shape))


def combination(networks: Sequence[AnyNetwork], weights: Sequence[float] | None = None) -> AnyNetwork:
    """The network with the weights sum_k p_k w_k, for networks of one shape.

    Args:
        networks: one or more of one shape.
        weights: p_k, one for each network, with sum 1; default equal.

    Raises:
        ValueError: as `shares`.

    Example:
        >>> import numpy as np
        >>> from ntkfl.connectivity.network import TwoLayer, combination
        >>> combination([TwoLayer(np.eye(2), np.ones(2)), TwoLayer(np.eye(2), np.zeros(2))]).readout
        array([0.5, 0.5])
    """
    parts = [p * network.vector() for p, network in zip(shares(networks, weights), networks, strict=True)]
    return networks[0].at(sum(parts[1:], parts[0]))


def shares(networks: Sequence[Averageable], weights: Sequence[float] | None) -> Float[np.ndarray, " K"]:
    """The weights p_k with which networks are averaged. By default the weights are equal.

    Args:
        networks: one or more of one shape.
        weights: p_k, one for each network, with sum 1; default equal.

    Raises:
        ValueError: there is no network; networks have different shapes; the numbers of weights and of networks differ;
            a weight is not finite.
    """
    check_shapes(networks)
    chosen = np.full(len(networks), 1 / len(networks)) if weights is None else finite_array("weights", weights)
    if chosen.shape != (len(networks),):
        raise ValueError(f"there are {len(networks)} networks and weights of shape {chosen.shape}; one weight each")
    return chosen


def between(first: AnyNetwork, second: AnyNetwork, alpha: float) -> AnyNetwork:
    """The point alpha w_1 + (1 - alpha) w_2 of the segment (FedGuCci, Definition 2.1).

    Args:
        first: the network w_1, at alpha = 1.
        second: the network w_2, at alpha = 0, of the same shape.
        alpha: the place on the segment: `first` is at 1, `second` at 0.
    """
    return combination((first, second), (alpha, 1 - alpha))


def check_shapes(networks: Sequence[Shaped], names: Sequence[str] | None = None) -> None:
    """Refuse networks that cannot be averaged.

    Args:
        networks: the networks to average.
        names: the networks' names in messages, such as their files; None: network 0, network 1, ...

    Raises:
        ValueError: there is no network, or networks have different shapes.
    """
    if not networks:
        raise ValueError("there is no network; at least one is needed")
    called = names or [f"network {number}" for number in range(len(networks))]
    first = networks[0].shapes
    for name_of, shapes in zip(called, (network.shapes for network in networks), strict=True):
        wrong = [name for name in first | shapes if shapes.get(name) != first.get(name)]
        if wrong:
            shape, wanted = (" and ".join(str(sizes.get(name)) for name in wrong) for sizes in (shapes, first))
            raise ValueError(
                f"{name_of} has {' and '.join(wrong)} weights of shapes {shape}, {called[0]} has {wanted}; only "
                "networks of one shape lie on a segment"
            )


def checked_inputs(network: Shaped, x: Float[np.ndarray, "n l"]) -> Float[np.ndarray, "n l"]:
    """The inputs of a two-layer network, as float64.

    Args:
        network: weights U (h, l) and v.
        x: inputs, shape (n, l).

    Raises:
        ValueError: there are no rows; the inputs have another number of features than the network; or an entry is not
            finite.
    """
    x = finite_array("x", x)
    features = network.shapes["hidden"][1]
    if x.ndim != 2 or x.shape[1] != features or not len(x):
        raise ValueError(f"the inputs have shape {x.shape}; the network takes (n, {features}), n >= 1")
    return x


@dataclass(frozen=True, eq=False)
class AffineTwoLayer:
    """A two-layer network with biases: f(x) = readout . relu(hidden x + bias) + output_bias.

    Args:
        hidden: the hidden weights, (h, l).
        readout: the readout, (h,) or (C, h), as in `TwoLayer`.
        bias: the biases of the hidden units, (h,).
        output_bias: the bias of the output, one number or (C,). None: the output has no bias.

    Raises:
        ValueError: biases do not fit, or are not finite; `TwoLayer` refuses the weights.
    """

    hidden: Float[np.ndarray, "h l"]
    readout: Float[np.ndarray, ...]
    bias: Float[np.ndarray, " h"] | None = None
    output_bias: Float[np.ndarray, ...] | None = None

    def __post_init__(self) -> None:
        network = TwoLayer(self.hidden, self.readout)
        sizes = {"bias": len(network.hidden), "output_bias": network.n_outputs}
        fields = {"hidden": network.hidden, "readout": network.readout}
        for name, size in sizes.items():
            if (given := getattr(self, name)) is None:
                continue
            array = finite_array(name, given)
            if array.ndim > 1 or array.size != size:
                where = "hidden unit" if name == "bias" else "output"
                raise ValueError(f"{name} has shape {array.shape}, hidden {network.hidden.shape}; one for each {where}")
            fields[name] = array.reshape(-1)
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the two layers' weights, without biases."""
        return {"hidden": self.hidden.shape, "readout": self.readout.shape}

    @property
    def shifts(self) -> bool:
        """Whether the output bias is different from 0."""
        return self.output_bias is not None and bool(self.output_bias.any())

    def with_feature(self) -> TwoLayer:
        """The function without the output bias, as a network without biases on the inputs of `with_constant`."""
        bias = np.zeros(len(self.hidden)) if self.bias is None else self.bias
        return TwoLayer(np.column_stack([self.hidden, bias]), self.readout)

    def with_unit(self) -> TwoLayer:
        """The whole function as a network without biases on the inputs that `with_constant` returns.

        A further unit adds the output bias; the value of this unit is 1 on every input. The unit's incoming weights are
        the same in all networks. So the networks on a segment between two results of this method have the same outputs
        as the networks on the segment between the two networks with biases.
        """
        inner = self.with_feature()
        shift = np.zeros(inner.n_outputs) if self.output_bias is None else self.output_bias
        last = np.zeros(inner.hidden.shape[1])
        last[-1] = 1.0
        readout = np.append(inner.readout, shift if inner.readout.ndim == 1 else shift[:, None], axis=-1)
        return TwoLayer(np.vstack([inner.hidden, last]), readout)


def without_biases(networks: Sequence[AffineTwoLayer]) -> tuple[list[TwoLayer], bool, bool]:
    """Networks without biases that have the same functions. Their inputs may need a further feature that is always 1.

    All networks are changed in the same way. So every point of their segments, planes and means has the same function
    as the corresponding point for the networks with biases.

    Args:
        networks: one or more of one shape.

    Returns: the networks; whether their inputs need the constant feature of `with_constant`; whether units were added.

    Raises:
        ValueError: networks have different shapes.
    """
    check_shapes(networks)
    if not any(network.bias is not None or network.shifts for network in networks):
        return [TwoLayer(network.hidden, network.readout) for network in networks], False, False
    unit = any(network.shifts for network in networks)
    return [network.with_unit() if unit else network.with_feature() for network in networks], True, unit


def with_constant(x: Float[np.ndarray, "n l"]) -> Float[np.ndarray, "n l+1"]:
    """The inputs with one more feature, which is 1.

    Args:
        x: inputs, shape (n, l).
    """
    return np.pad(finite_array("x", x), ((0, 0), (0, 1)), constant_values=1.0)
