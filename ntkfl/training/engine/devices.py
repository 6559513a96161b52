"""Devices on which the training engine runs. The user names a device; a device that the machine lacks is refused."""

from typing import Any

import torch

from ntkfl.trajectory import provenance


def torch_device(name: str) -> torch.device:
    """The device of this name, such as "cpu", "cuda" or "cuda:1".

    Raises:
        ValueError: the kind of device is unknown, the device has no float64, or this machine does not have the device.
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device is {name!r}; it must be cpu, cuda or cuda:NUMBER") from None
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device is {name!r}; float64 is needed, so it must be cpu, cuda or cuda:NUMBER")
    if device.type == "cuda":
        there = torch.cuda.device_count()
        if not there:
            raise ValueError(
                f"device is {name!r}, and PyTorch {torch.__version__} sees no CUDA device here; cpu runs anywhere"
            )
        if device.index is not None and device.index >= there:
            raise ValueError(f"device is {name!r}, and there are {there} CUDA devices; the last is cuda:{there - 1}")
    elif device.index:
        raise ValueError(f"device is {name!r}; there is one cpu")
    return device


def device_name(device: torch.device) -> str:
    """The device's name in reports: "cpu", or "cuda:0" with the model of the card."""
    if device.type != "cuda":
        return device.type
    index = torch.cuda.current_device() if device.index is None else device.index
    return f"cuda:{index}, {torch.cuda.get_device_name(index)}"


def provenance_on(device: torch.device, **seeds: Any) -> dict[str, Any]:
    """Versions, dtype, device and seeds of a float64 computation by the training engine on this device."""
    made = provenance(**seeds)
    return made | {"versions": made["versions"] | {"torch": torch.__version__}, "device": device_name(device)}
