"""Checks the parameters that a user gives for a network, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ntkfl.problem import real_array

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def in_float64(
    params: Mapping[str, Tensor | np.ndarray], device: torch.device | str | None = None
) -> dict[str, Tensor]:
    """Parameters as tensors of float64, from tensors or from the arrays of a trajectory's `weights`; without gradients.

    Raises:
        ValueError: no dict, an empty one, or a value that is no array of real numbers.
    """
    import torch  # slow to load

    if not isinstance(params, Mapping) or not params:
        raise ValueError(f"params is {params!r:.60}; it must be a dict of tensors, as network.initial(0) gives")
    for name, value in params.items():
        real = isinstance(value, torch.Tensor) and value.is_floating_point()
        if not real and not (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
            kind = value.dtype if isinstance(value, torch.Tensor | np.ndarray) else type(value).__name__
            raise ValueError(f"the parameter {name!r} is {kind}; it must be a tensor, or an array, of real numbers")
    tensors = {  # copied, since torch warns of read-only arrays
        name: value.detach()
        if isinstance(value, torch.Tensor)
        else torch.tensor(real_array(f"params[{name!r}]", value))
        for name, value in params.items()
    }
    return {name: value.to(device, torch.float64) for name, value in tensors.items()}
