"""Two-layer ReLU networks with biases, also rewritten without biases on inputs with a constant feature 1."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.connectivity.network import TwoLayer, check_shapes
from ntkfl.problem import finite_array


@dataclass(frozen=True, eq=False)
class AffineTwoLayer:
    """f(x) = readout . relu(hidden x + bias) + output_bias.

    Args:
        hidden: (h, l).
        readout: (h,) or (C, h), as in `TwoLayer`.
        bias: (h,).
        output_bias: one number, or (C,). None: the network has none.

    Raises:
        ValueError: biases that do not fit, or that are not finite; weights that `TwoLayer` refuses.
    """

    hidden: Float[np.ndarray, "h l"]
    readout: Float[np.ndarray, "..."]
    bias: Float[np.ndarray, " h"] | None = None
    output_bias: Float[np.ndarray, "..."] | None = None

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
        """Whether the output has a bias that is not 0."""
        return self.output_bias is not None and bool(self.output_bias.any())

    def with_feature(self) -> TwoLayer:
        """The function less the output's bias, as a network without biases on the inputs of `with_constant`."""
        bias = np.zeros(len(self.hidden)) if self.bias is None else self.bias
        return TwoLayer(np.column_stack([self.hidden, bias]), self.readout)

    def with_unit(self) -> TwoLayer:
        """The function as a network without biases on the inputs of `with_constant`; a further unit has the last bias.

        The further unit is 1 on every input. It has the same incoming weights in all networks, so that the outputs on a
        segment between two networks are the outputs of the networks with biases.
        """
        inner = self.with_feature()
        shift = np.zeros(inner.n_outputs) if self.output_bias is None else self.output_bias
        last = np.zeros(inner.hidden.shape[1])
        last[-1] = 1.0
        readout = np.append(inner.readout, shift if inner.readout.ndim == 1 else shift[:, None], axis=-1)
        return TwoLayer(np.vstack([inner.hidden, last]), readout)


def without_biases(networks: Sequence[AffineTwoLayer]) -> tuple[list[TwoLayer], bool, bool]:
    """The same functions without biases; whether their inputs need the constant feature, and whether units were added.

    All networks are changed in the same way, so that every point of their segments, planes and means is the same
    function as with biases.

    Args:
        networks: one or more of one shape.

    Returns: the networks; whether their inputs need the constant feature; whether units were added.

    Raises:
        ValueError: networks of different shapes.
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
