"""FL-NTK's two-layer network in terms of how far its weights have moved, so that small movements keep their digits."""

import numpy as np
import torch
from torch import Tensor

from ntkfl.problem import Weights
from ntkfl.training.model import Model
from ntkfl.training.models.two_layer import relu
from ntkfl.training.tree import Params

MOVED = "moved"


def displaced_network(weights: Weights, device: torch.device | str = "cpu", *, linearised: bool = False) -> Model:
    """f(x) = signs . relu((U + D) x) / sqrt(m) with U and the signs fixed; D, (m, d) float64, is trained from 0.

    The gradient in D is that in the hidden weights, with the indicator of w.x >= 0. But U + D would be rounded to the
    size of U after every step, and D, of order m^(-1/2), is what statements about movements measure.

    Args:
        device: of the parameters.
        weights: hidden U (m, d), signs (m,). linearised: patterns frozen at U: the network linearised in its weights.

    Source: FL-NTK, section 3 (Eq 1) and Algorithm 1.
    """
    hidden, signs = weights
    start = torch.as_tensor(np.array(hidden), dtype=torch.float64, device=device)
    scale = torch.as_tensor(signs / np.sqrt(len(signs)), dtype=torch.float64, device=device)

    def features(params: Params, x: Tensor) -> Tensor:
        before = x @ start.T
        z = before + x @ params[MOVED].T
        return torch.where(before >= 0, z, 0) if linearised else relu(z)

    return Model(
        f"ntk:{len(signs)}" + (" linearised" if linearised else ""),
        lambda seed: {MOVED: torch.zeros_like(start)},
        features,
        lambda params, z: z @ scale,
    )
