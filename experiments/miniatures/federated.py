"""Training runs of a miniature, and what is taken from them."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import numpy as np

from experiments.miniatures.miniature import EMPTY, Keys, Quantity, Setting, Sign
from ntkfl.training import Run, run
from ntkfl.training.run_folder import MAY_CHANGE, RunFolder

ACCURACY = "test accuracy"
LAST = 5  # rounds whose mean FedGuCci reports
CIFAR = {"data": "cifar-10", "model": "simple-cnn"}  # of FedGuCci's tables but Table 2's first columns
DIGITS = {"data": "digits", "model": "mlp:64-64"}
DECAY = {"rate_decay": 0.99, "weight_decay": 5e-4}  # of FedGuCci's released code
RECIPE = DECAY | {"epochs": 3, "batch_size": 64, "rate": 0.04}  # of FedGuCci's tables
IMAGES = {"images": ("50000 of 32 x 32 x 3", "1437 of 8 x 8")}  # CIFAR-10 and digits
SCALE = IMAGES | {"model": ("CNN of 122570 parameters", "MLP 64-64-64-10")}
NOT_THE_RUN = "keep", "path", MAY_CHANGE  # keys that a run may be resumed with others of


def trained(keys: Keys, seed: int) -> Run:
    """The run that these keys of `RunConfig` name; with a folder `keep` among them it is kept there, or goes on."""
    config = {key: value for key, value in keys.items() if key != "keep"} | {"seed": seed}
    if "keep" not in keys:
        return run(**config)
    what = json.dumps({key: value for key, value in config.items() if key not in NOT_THE_RUN}, sort_keys=True)
    name = f"{config['method']}.{seed}.{hashlib.sha256(what.encode()).hexdigest()[:8]}"
    folder = Path(keys["keep"]) / name
    return run(**config, out=folder, resume=RunFolder(folder).checkpoint.is_file())


def mean_accuracy(keys: Keys, seed: int) -> Mapping[str, float]:
    """The mean test accuracy of the last rounds, in percent."""
    return {ACCURACY: fmean(accuracies(trained(keys, seed))[-LAST:])}


def accuracies(done: Run) -> np.ndarray:
    """The test accuracy after each round, in percent, (T,)."""
    return 100 * done.metrics["test_accuracy"][1:]


def accuracy(**printed: str) -> Quantity:
    """That mean as a quantity, printed where these fields say."""
    return Quantity(ACCURACY, "%, mean of the last 5 rounds", printed or None)


def settings(
    common: Keys,
    variations: Mapping[str, Keys],
    baseline: str,
    printed: Mapping[str, Keys] | None = None,
    named: str = "{}",
    claim: Mapping[str, Sign] = EMPTY,
) -> tuple[Setting, ...]:
    """Settings of these names, their own keys beside the common ones, each compared with the baseline.

    Args:
        common: keys of all. variations: own keys, by the setting's name. baseline: the name that the others are
            compared with.
        printed: what picks the paper's rows, by the setting's name; those without an entry have none.
        named: what becomes of the names, "{}, 10% of the clients" say. claim: of all but the baseline.
    """
    printed = printed or {}
    return tuple(
        Setting(
            named.format(name),
            {**common, **own},
            None if name == baseline else named.format(baseline),
            printed.get(name),
            EMPTY if name == baseline else claim,
        )
        for name, own in variations.items()
    )
