"""Networks of layers in float64 without error bounds, an implementation that is independent of the certificate's."""

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_array

from ntkfl.smooth_networks.layers import Image, Layer


class FloatNetwork:
    """The network of some layers in float64, at any trained parameters."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self.layers = layers
        self.gathers = [None if layer.image is None else _gather(layer) for layer in layers]

    def start(self) -> Float[np.ndarray, " P"]:
        """The trained parameters at the checkpoint: for each layer the weights, then the biases."""
        parts = [
            value.reshape(-1)
            for layer in self.layers
            if layer.trained
            for value in (layer.weight, layer.bias)
            if value is not None
        ]
        return np.concatenate(parts)

    def weights(self, theta: Float[np.ndarray, " P"]) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """The arrays W and b of each layer."""
        matrices, at = [], 0
        for layer in self.layers:
            weight, bias = layer.weight, layer.bias
            if layer.trained:
                weight = theta[at : at + weight.size].reshape(weight.shape)
                at += weight.size
                if bias is not None:
                    bias = theta[at : at + len(bias)]
                    at += len(bias)
            matrices.append((weight, bias))
        return matrices

    def forward(self, theta: Float[np.ndarray, " P"], x: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, list]:
        """Outputs (n, C), and the data for `backward`: the inputs of each layer, its values before phi, and W."""
        image = self.layers[0].image
        if image is not None:  # each row is ordered by channel
            x = x.reshape(len(x), -1, image.pixels).transpose(0, 2, 1).reshape(len(x), -1)
        h, kept, aside = x, [], list[np.ndarray]()
        for layer, gather, (weight, bias) in zip(self.layers, self.gathers, self.weights(theta), strict=True):
            aside += [h] * layer.opens
            rows = h[:, None] if gather is None else (gather @ h.T).T.reshape(len(x), _places(layer), -1)
            z = layer.scale * (rows @ weight.T)
            z = z if bias is None else z + layer.bias_scale * bias
            kept.append((rows, z, weight))
            h = layer.activation.function(z).reshape(len(x), -1)
            for _ in range(layer.closes):
                h = h + aside.pop()
            if layer.pools:
                h = h.reshape(z.shape).mean(1)
        return h, kept

    def backward(self, kept: list, b: Float[np.ndarray, "n C"], together: bool) -> np.ndarray:
        """The gradients of b_i . f(x_i) by the parameters: their sum, (P,), or one row for each sample, (n, P)."""
        parts: list[np.ndarray] = []
        lead: tuple[int, ...]
        aside: list[np.ndarray] = []
        for layer, gather, (rows, z, weight) in zip(self.layers[::-1], self.gathers[::-1], kept[::-1], strict=True):
            if layer.pools:
                b = np.broadcast_to(b[:, None] / z.shape[1], (len(b), *z.shape[1:]))
            b = b.reshape(len(b), *z.shape[1:])
            aside += [b.reshape(len(b), -1)] * layer.closes
            b = b * layer.activation.derivative(z)
            if layer.trained:
                if together:
                    lead, of_bias, of_weight = (), b.sum((0, 1)), np.tensordot(b, rows, ((0, 1), (0, 1)))
                else:
                    lead, of_bias, of_weight = (len(b),), b.sum(1), b.transpose(0, 2, 1) @ rows
                parts += [] if layer.bias is None else [layer.bias_scale * of_bias]
                parts.append(layer.scale * of_weight.reshape(*lead, -1))
            b = layer.scale * (b @ weight)
            b = b.reshape(len(b), -1) if gather is None else (gather.T @ b.reshape(len(b), -1).T).T
            for _ in range(layer.opens):
                b = b + aside.pop()
        return np.concatenate(parts[::-1], axis=-1)

    def jacobian(self, theta: Float[np.ndarray, " P"], x: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray]:
        """The outputs (n C,) and their gradients (n C, P), ordered by sample."""
        f, kept = self.forward(theta, x)
        of = np.repeat(np.arange(len(x)), f.shape[1])
        repeated = [(rows[of], z[of], weight) for rows, z, weight in kept]
        return f.reshape(-1), self.backward(repeated, np.tile(np.eye(f.shape[1]), (len(x), 1)), together=False)


def _places(layer: Layer) -> int:
    return 1 if layer.image is None else layer.image.places


def _gather(layer: Layer) -> csr_array:
    """The matrix that maps pixels, each with its channels, to the squares of pixels around all places, ordered by
    channel.
    """
    image = layer.image
    assert isinstance(image, Image)
    channels, edge = layer.weight.shape[1] // image.side**2, image.side // 2
    place, channel, down, across = np.indices((image.places, channels, image.side, image.side)).reshape(4, -1)
    row = place // image.output_shape[1] * image.stride + down - edge
    column = place % image.output_shape[1] * image.stride + across - edge
    inside = (row >= 0) & (row < image.height) & (column >= 0) & (column < image.width)
    at = np.flatnonzero(inside)
    pixel = (row[at] * image.width + column[at]) * channels + channel[at]
    return csr_array((np.ones(len(at)), (at, pixel)), shape=(len(place), image.pixels * channels))
