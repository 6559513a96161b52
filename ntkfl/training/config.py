"""The settings of a training run. They are checked once, stored with the results, and may be read from a TOML file."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ntkfl.data.user_files import is_data_file
from ntkfl.extensions import is_file
from ntkfl.messages import did_you_mean
from ntkfl.training.datasets.glue import TASKS

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, le=1)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

# Algorithm 1 of FL-NTK is stated for full-batch steps on inputs of norm 1 with real labels. The rate .01 is stable for
# fewer than 400 samples a client, since the largest eigenvalue of a client's Gram matrix is at most half the number of
# its samples.
FL_NTK = {
    "batch_size": "full",
    "local_steps": 2,
    "rate": 0.01,
    "momentum": 0.0,
    "target": "sign",
    "unit": True,
    "reduction": "sum",
    "model": "ntk:4096",
}
DEFAULTS_OF: dict[str, dict[str, Any]] = {"fl-ntk": FL_NTK}
# default model for each name of data; the default for all other data is mlp
MODEL_OF = dict.fromkeys(("fashion-mnist", "mnist-5k", "cifar-10", "cifar-100"), "simple-cnn")
MODEL_OF |= dict.fromkeys(TASKS, "minilm-lora")
IMA_START = 0.75  # share of the rounds before averaging starts, as in IMA (iterative moving averaging)
EPOCHS = 3  # local epochs, as in FedGuCci
EXCLUSIVE = "epochs", "local_steps"
OTHER_STEPS = {
    "eta_local": "the clients' step is rate here; Problem.mean_loss_rate converts (docs/glossary.md#steps)",
    "eta_global": "the server's step is server_rate here, among the options of the method",
}


class RunConfig(BaseModel):
    """All settings of a run; each key is an option of `ntkfl train` and an argument of `run`.

    Keys that are left out take their defaults. Some defaults depend on the method, the data or the optimizer; a
    RunConfig always holds the values that are used. An `ima_start` below 1 is a share of the rounds and is stored as a
    round. Paths of files (of the method, the model, the data) are stored as absolute paths, so that a run may be
    resumed from any working directory.

    Raises:
        pydantic.ValidationError, a ValueError. `checked` raises a ValueError with a sentence for each faulty key
            instead.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    method: str = "fedavg"
    options: dict[str, Any] = {}
    data: str = "digits"
    path: str | None = None
    clients: Count | None = None
    partition: str | None = None
    samples: Count | None = None
    test: Annotated[int, Field(ge=0)] | None = None
    train_share: Share = 1.0
    target: Literal["classes", "real", "sign", "one-hot"] | None = None
    unit: bool = False
    reduction: Literal["mean", "sum"] = "mean"
    model: str
    rounds: Annotated[int, Field(ge=0)] = 10
    participation: Share = 1.0
    epochs: Count | None = None
    local_steps: Count | None = None
    batch_size: Count | Literal["full"] = 32
    optimizer: Literal["sgd", "adam"] = "sgd"
    rate: Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
    rate_decay: Share = 1.0
    momentum: Annotated[float, Field(ge=0, lt=1)]
    weight_decay: NonNegative = 0.0
    clip: Positive | None = None
    keep_optimizer: bool = False
    ima: bool = False
    ima_window: Count = 5
    ima_start: Annotated[int, Field(ge=0)] = 0
    ima_exploration: Literal["exponential", "constant", "cyclic", "epochs", "none"] = "exponential"
    ima_decay: Share = 0.97
    ima_period: Annotated[int, Field(ge=2)] = 20
    ima_order: Literal["after_server_step", "before_server_step"] = "after_server_step"
    ima_restart: bool = False
    ima_released: bool = False
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    device: str = "cpu"
    dtype: Literal["float32", "float64"] = "float32"
    at_once: Count | None = None
    train_loss: bool = False
    client_accuracy: bool = False

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, given: Any) -> Any:
        """The given keys, completed by those defaults that depend on other keys."""
        if not isinstance(given, Mapping):
            return given
        given = {key: value for key, value in given.items() if value is not None}
        for key, names_a_file in (("method", is_file), ("data", is_data_file), ("path", lambda spec: True)):
            if isinstance(spec := given.get(key), str) and names_a_file(spec):
                given[key] = str(Path(spec).resolve())
        if is_file((model := str(given.get("model"))).partition(":")[0]):
            given["model"] = str(Path(model).resolve())  # the sizes after the colon are kept
        defaults = dict(DEFAULTS_OF.get(str(given.get("method")), {}))
        if any(key in given for key in EXCLUSIVE):
            defaults = {key: value for key, value in defaults.items() if key not in EXCLUSIVE}
        filled = {
            "model": MODEL_OF.get(re.split("[:+]", str(given.get("data")))[0], "mlp"),
            "rate": 0.001 if given.get("optimizer") == "adam" else 0.05,
            "momentum": 0.0 if given.get("optimizer") == "adam" else 0.9,  # as in the code of FedGuCci and IMA
        }
        filled |= defaults | ({"ima_start": IMA_START} if given.get("ima") is True else {}) | given
        if not any(key in filled for key in EXCLUSIVE):
            filled["epochs"] = EPOCHS
        start, rounds = filled.get("ima_start"), filled.get("rounds", cls.model_fields["rounds"].default)
        if given.get("ima") is True and isinstance(start, float) and isinstance(rounds, int) and 0 <= start < 1:
            filled["ima_start"] = round(start * rounds)
        return filled

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.epochs is not None and self.local_steps is not None:
            raise ValueError(
                f"epochs is {self.epochs} and local_steps {self.local_steps}; both say how long clients train: give one"
            )
        if self.optimizer == "adam" and self.momentum:
            raise ValueError(f"momentum is {self.momentum:g}, and Adam has none; leave it out, or take optimizer sgd")
        for key, field in type(self).model_fields.items():
            if key.startswith("ima_") and not self.ima and getattr(self, key) != field.default:
                raise ValueError(f"{key} is {getattr(self, key)!r} without ima; add ima, or leave it out")
        return self


def checked(given: Mapping[str, Any], where: str = "") -> RunConfig:
    """The configuration of these keys.

    Args:
        given: keys of `RunConfig`.
        where: name of the source of the keys in messages; default empty.

    Raises:
        ValueError: some keys are faulty; the message gives, for each of them, the key, the value found and what would
            be right.
    """
    try:
        return RunConfig.model_validate(dict(given))
    except ValidationError as error:
        faults: dict[str, list[dict[str, Any]]] = {}
        for fault in error.errors():
            faults.setdefault(str(fault["loc"][:1]), []).append(dict(fault))
        raise ValueError(where + "; ".join(map(_sentence, faults.values()))) from None


def read_toml(path: Path) -> dict[str, Any]:
    """The keys of a configuration file, not yet checked.

    Args:
        path: the file.

    Raises:
        OSError: the file cannot be read. ValueError: the file is not TOML; the message has the line and the column.
    """
    try:
        # skips the byte order mark that editors on Windows write
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None


def _sentence(faults: list[dict[str, Any]]) -> str:
    """The sentence about one key.

    If a key allows values of several kinds, `faults` has an entry for each kind, since the value is of none of them.
    """
    first = faults[0]
    if not first["loc"]:
        return str(first["ctx"]["error"])
    key, given = str(first["loc"][0]), first["input"]
    if first["type"] == "extra_forbidden":
        if key in OTHER_STEPS:
            return f"there is no key {key!r}: {OTHER_STEPS[key]}"
        fields = RunConfig.model_fields
        hint = did_you_mean(key.replace("-", "_"), fields)
        return f"there is no key {key!r}.{hint} Keys are {', '.join(fields)}"
    right = " or ".join(fault["msg"].removeprefix("Input should be ") for fault in faults)
    return f"{key} is {given!r}; it must be {right}"
