"""Models by name. Each module has a family of models; its dict MODELS maps names to builders (`Request` -> `Model`).

In place of a model's name, you may give the path of a file of your own that has one model.
"""

from collections.abc import Callable, Mapping
from functools import cache

import torch

from ntkfl.extensions import SUFFIX, ExtensionError, from_file, is_file, modules_of
from ntkfl.messages import did_you_mean
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.model import Model, Request

Builder = Callable[[Request], Model]


@cache
def catalogue() -> dict[str, Builder]:
    """The builder of every model by its name, in alphabetical order."""
    families = modules_of(__name__)
    builders = {name: builder for family in families for name, builder in getattr(family, "MODELS", {}).items()}
    return dict(sorted(builders.items()))


def build(
    spec: str,
    data: FederatedData,
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> Model:
    """The model of this name for these data, with C outputs for C classes, or one output for each label of a sample.

    Args:
        spec: "NAME" or "NAME:SIZES", such as "mlp:64-64", "simple-cnn", "two-layer:512", "resnet20-gn"; NAME may be the
            path of a file of yours.
        data: the data, which give the shape of the inputs and the number of outputs.
        dtype: torch's type of the parameters, default float64.
        device: a device of torch, default the CPU.
        seed: the seed of random parts that are not trained (the signs of "ntk:WIDTH"); default 0.

    Raises:
        ValueError: an unknown name (the message has the nearest one), sizes that are not understood, inputs that the
            model cannot take.
    """
    name, _, argument = spec.partition(":")
    builder = _of_file(name) if is_file(name) else catalogue().get(name)
    if builder is None:
        hint = did_you_mean(name, catalogue())
        raise ValueError(
            f"there is no model {name!r}.{hint} Models are {', '.join(catalogue())}, or the path of a {SUFFIX} file "
            "with MODELS"
        )
    outputs = data.classes or (data.y.shape[1] if data.y.ndim > 1 else None)
    return builder(Request(spec, argument, tuple(data.x.shape[1:]), outputs, dtype, device, seed))


def brought_by(spec: str) -> Mapping[str, str] | None:
    """The file of a model, with its SHA-256; None for this project's own models.

    Args:
        spec: as in `build`.
    """
    name = spec.partition(":")[0]
    return from_file(name).provenance if is_file(name) else None


def _of_file(name: str) -> Builder:
    """The builder of the one model in a user's file."""
    models = getattr(from_file(name).module, "MODELS", None)
    if not isinstance(models, dict) or len(models) != 1 or not all(map(callable, models.values())):
        raise ExtensionError(f"{name} must have MODELS, a dict of one name and its builder; it has {models!r}")
    return next(iter(models.values()))
