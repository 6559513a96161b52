"""Two-layer ReLU networks: the form of FL-NTK (signs fixed, 1/sqrt m) and that of connectivity (both layers free)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ntkfl.initialisation import draw
from ntkfl.problem import Weights
from ntkfl.training.model import Model
from ntkfl.training.tree import Params


def ntk_network(
    weights: Weights, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu", sigma: float = 1.0
) -> Model:
    """f(x) = signs . relu(hidden x) / sqrt(m) with these signs; "hidden" (m, d) is trained.

    Seed 0 gives these hidden weights whatever they are, so that a run starts where the simulator's does; other seeds
    draw Gaussians of standard deviation `sigma`, as `ntkfl.initialisation.draw` does. relu has slope 1 at 0.

    Source: FL-NTK, section 3 (Eq 1) and Algorithm 1, whose gradient has the indicator of w.x >= 0.
    """
    hidden, signs = weights
    scale = torch.as_tensor(signs / np.sqrt(len(signs)), dtype=dtype, device=device)

    def initial(seed: int) -> Params:
        chosen = hidden if seed == 0 else draw(len(signs), hidden.shape[1], seed, sigma).hidden
        return {"hidden": torch.as_tensor(np.array(chosen), dtype=dtype, device=device)}

    return Model(
        f"ntk:{len(signs)}",
        initial,
        lambda params, x: _relu(x @ params["hidden"].T),
        lambda params, z: z @ scale,
    )


def _relu(z: Tensor) -> Tensor:
    return torch.where(z >= 0, z, 0)
