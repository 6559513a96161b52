"""What a model takes of memory, asked for before it is drawn."""

import torch

from ntkfl.memory import require

DRAWN = 2  # copies of the parameters while a model is drawn


def require_parameters(name: str, count: int, dtype: torch.dtype, device: torch.device | str) -> None:
    """Refuse a model that is too large to be drawn.

    Args:
        name: of the model. count: of its parameters. dtype, device: of the parameters.

    Raises:
        TooLittleMemory: with the number of parameters that would fit.
    """
    require(
        f"the model {name}",
        lambda parameters: DRAWN * dtype.itemsize * parameters,
        free_on(torch.device(device)),
        "give it smaller sizes",
        parameters=count,
    )


def free_on(device: torch.device) -> float | None:
    """Bytes free on a device that has memory of its own; None: the machine's are to be asked for."""
    return float(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else None
