"""Two-layer ReLU networks, in FL-NTK's form (fixed signs, 1/sqrt m) and in FedGuCci's (both layers trained)."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ntkfl.connectivity.network import TwoLayer
from ntkfl.initialisation import draw
from ntkfl.problem import Weights
from ntkfl.training.model import Model, Request, require_parameters
from ntkfl.training.tree import Params, row_of

LARGEST_NEGATIVE = {
    torch.float32: float(np.nextafter(np.float32(0), np.float32(-1))),
    torch.float64: float(np.nextafter(0.0, -1.0)),
}


def ntk_network(weights: Weights, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Model:
    """The network f(x) = signs . relu(hidden x) / sqrt(m). "hidden" (m, d) is trained, the signs are fixed.

    Seed 0 gives exactly these hidden weights, from which `ntkfl.simulate` starts too. Other seeds draw standard
    Gaussians, as `ntkfl.initialisation.draw` does. relu has slope 1 at 0.

    Source: FL-NTK, section 3 (Eq 1) and Algorithm 1, whose gradient has the indicator of w.x >= 0.
    """
    hidden, signs = weights
    scale = torch.as_tensor(signs / np.sqrt(len(signs)), dtype=dtype, device=device)

    def initial(seed: int) -> Params:
        chosen = hidden if seed == 0 else draw(len(signs), hidden.shape[1], seed, 1.0).hidden
        return {"hidden": torch.as_tensor(np.array(chosen), dtype=dtype, device=device)}

    return Model(
        f"ntk:{len(signs)}",
        initial,
        lambda params, x: relu(x.flatten(1) @ params["hidden"].T),
        lambda params, z: z @ scale,
    )


def relu(z: Tensor) -> Tensor:
    """Returns max(z, 0), with slope 1 at 0.

    The code uses a threshold at the largest negative number, since a threshold takes one pass over z; torch.where(z >=
    0, z, 0) would take more.
    """
    return functional.threshold(z, LARGEST_NEGATIVE[z.dtype], 0.0)


def connectivity_network(request: Request) -> Model:
    """The model "two-layer:WIDTH", of width 512 by default: f(x) = readout . relu(hidden x), without biases.

    Both layers are trained. Initial weights are Gaussian, with variance 2 / d in `hidden` and 1 / WIDTH in `readout`,
    so that outputs have about the size of an input's entries.

    Source: FedGuCci, section 3 (the networks of Theorem 3.5); `to_network` turns the model's parameters into a network
    of `ntkfl.connectivity`.
    """
    (width,) = request.sizes((512,))
    out = () if request.outputs is None else (request.outputs,)
    count = width * (request.features + (request.outputs or 1))
    require_parameters(request.spec, count, torch.float64, request.device)

    def initial(seed: int) -> Params:
        generator = torch.Generator().manual_seed(seed)
        hidden = torch.randn(width, request.features, generator=generator, dtype=torch.float64)
        readout = torch.randn(*out, width, generator=generator, dtype=torch.float64)
        scaled = {"hidden": hidden * (2 / request.features) ** 0.5, "readout": readout / width**0.5}
        return {name: weights.to(request.device, request.dtype) for name, weights in scaled.items()}

    return Model(
        request.spec,
        initial,
        lambda params, x: torch.relu(x.flatten(1) @ params["hidden"].T),
        lambda params, z: z @ params["readout"].T if out else z @ params["readout"],
        ("readout",),
    )


def to_network(params: Params) -> TwoLayer:
    """The parameters of a `connectivity_network` as a `TwoLayer`, whose barriers can be computed exactly.

    Raises:
        ValueError: the parameters belong to another model.
    """
    if params.keys() != {"hidden", "readout"}:
        raise ValueError(
            f"the parameters are {', '.join(params)}; exact barriers need hidden and readout, as in the "
            "model two-layer:WIDTH"
        )
    return TwoLayer(params["hidden"].double().cpu().numpy(), params["readout"].double().cpu().numpy())


def to_networks(rows: Params) -> list[TwoLayer]:
    """The networks of several clients.

    Args:
        rows: the parameters "hidden" and "readout", with a row for each client, as in `RoundResult.ends`.
    """
    return [to_network(row_of(rows, row)) for row in range(len(rows["hidden"]))]


def ntk(request: Request) -> Model:
    """The model "ntk:WIDTH": FL-NTK's network with its random initial weights, of width 4096 by default.

    Raises:
        ValueError: the data have classes, or several labels a sample; the network has one output.
    """
    (width,) = request.sizes((4096,))
    if request.outputs is not None:
        raise ValueError(
            f"the model {request.spec!r} has one output; these data ask for {request.outputs}: give one real label a "
            "sample (target='sign', say), or use two-layer:WIDTH"
        )
    return ntk_network(draw(width, request.features, request.seed), request.dtype, request.device)


MODELS = {"two-layer": connectivity_network, "ntk": ntk}
