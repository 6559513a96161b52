"""Training runs of miniatures, and the accuracies that they measure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.miniatures.miniature import EMPTY, Keys, Miniature, Quantity, Setting, Sign
from experiments.miniatures.step_size import control
from ntkfl.training import Run, run
from ntkfl.training.run_folder import MAY_CHANGE, RunFolder

ACCURACY = "test accuracy"
# number of test images, if `test` is not among the keys
TEST_IMAGES = {"digits": 359, "fashion-mnist": 10_000, "cifar-10": 10_000}
LAST = 5  # number of the last rounds over which FedGuCci reports the mean
# data and model of FedGuCci's tables, except in the first columns of Table 2
CIFAR = {"data": "cifar-10", "model": "simple-cnn"}
DIGITS = {"data": "digits", "model": "mlp:64-64"}
DECAY = {"rate_decay": 0.99, "weight_decay": 5e-4}  # the decays of FedGuCci's released code
RECIPE = DECAY | {"epochs": 3, "batch_size": 64, "rate": 0.04}  # settings of FedGuCci's tables
IMAGES = {"images": ("50000 of 32 x 32 x 3", "1438 of 8 x 8")}  # the images of CIFAR-10 and of digits
SCALE = IMAGES | {"model": ("CNN of 122570 parameters", "MLP 64-64-64-10")}
NOT_THE_RUN = "keep", "path", MAY_CHANGE  # keys that may differ when a run is resumed


def trained(keys: Keys, seed: int) -> Run:
    """The run with these keys of `RunConfig`.

    If there is a key `keep`, the run is stored in this folder, or continued from it.
    """
    config = {key: value for key, value in keys.items() if key != "keep"} | {"seed": seed}
    if "keep" not in keys:
        return run(**config)
    what = json.dumps({key: value for key, value in config.items() if key not in NOT_THE_RUN}, sort_keys=True)
    name = f"{config['method']}.{seed}.{hashlib.sha256(what.encode()).hexdigest()[:8]}"
    folder = Path(keys["keep"]) / name
    return run(**config, out=folder, resume=RunFolder(folder).checkpoint.is_file())


def accuracy_curve(keys: Keys, seed: int) -> Mapping[str, Sequence[float]]:
    """The test accuracy after each round, in percent."""
    return {ACCURACY: accuracies(trained(keys, seed)).tolist()}


def accuracies(done: Run) -> np.ndarray:
    """The test accuracy after each round, in percent, (T,)."""
    return 100 * done.metrics["test_accuracy"][1:]


def accuracy(last: int = LAST, **printed: str) -> Quantity:
    """The quantity "mean accuracy over the last rounds", for ten classes.

    The fields `printed` select the paper's number.

    A curve is flat if it changes by less than one percentage point, since the papers' differences between methods are
    of that size. A difference of less than one test image does not count.
    """
    unit = f"%, mean of the last {last} rounds"
    return Quantity(ACCURACY, unit, printed or None, last, flat=1.0, chance=10.0, resolution=one_image)


def one_image(keys: Keys) -> float:
    """The contribution of one test image to the test accuracy, in percent."""
    return 100 / (keys.get("test") or TEST_IMAGES[keys["data"].partition(":")[0]])


def settings(
    common: Keys,
    variations: Mapping[str, Keys],
    baseline: str,
    printed: Mapping[str, Keys] | None = None,
    named: str = "{}",
    claim: Mapping[str, Sign] = EMPTY,
) -> tuple[Setting, ...]:
    """Settings with the common keys and keys of their own, each compared with the baseline.

    If a method has a control (`step_size.control`), the control is added as a setting, unless another setting is equal
    to it already. So methods with the same step size share a control.
    """
    printed = printed or {}
    chosen: dict[str, Setting] = {}
    runs = {name: {**common, **own} for name, own in variations.items()}
    controls = {name: None if name == baseline else control(keys) for name, keys in runs.items()}
    for name, keys in runs.items():
        theirs = controls[name]
        same = next((other for other, run in runs.items() if run == theirs), None)
        same = same or next((other for other, setting in chosen.items() if setting.keys == theirs), None)
        if theirs is not None and same is None:
            same = f"control of {name}"
        chosen[name] = Setting(
            named.format(name),
            keys,
            None if name == baseline else named.format(baseline),
            printed.get(name),
            EMPTY if name == baseline else claim,
            None if same in (None, name, baseline) else named.format(same),
        )
        if theirs is not None and same is not None and same not in runs and same not in chosen:
            chosen[same] = Setting(named.format(same), theirs, named.format(baseline))
    return tuple(chosen.values())


def of_rounds(miniature: Miniature, rounds: int) -> Miniature:
    """The miniature with another number of rounds.

    The controls are computed anew, since their step sizes may depend on this number.
    """
    setting_of = {
        setting.name: replace(setting, keys={**setting.keys, "rounds": rounds}) for setting in miniature.settings
    }
    for setting in tuple(setting_of.values()):
        if setting.control and (theirs := control(setting.keys)):
            setting_of[setting.control] = replace(setting_of[setting.control], keys=theirs)
    shares = {"rounds": f"{rounds}", "rounds, averaging from": f"{rounds}, from the same shares of them on"}
    scale = {what: (paper, shares.get(what, here)) for what, (paper, here) in miniature.scale.items()}
    return replace(miniature, settings=tuple(setting_of.values()), scale=scale)
