"""Does IMA gain more where clients are unlike, where few take part, or where clients train for long?"""

from collections.abc import Mapping
from statistics import fmean

from experiments.miniatures.federated import accuracies, settings, trained
from experiments.miniatures.ima import COMMON, IMA, LAST, MINIATURE as ALONE, PAPER_KEYS
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Quantity, Setting, Sign
from experiments.miniatures.step_size import control

GAIN, BEYOND_DECAY = "gain of IMA", "gain beyond the faster decay"
BASE = "Dirichlet 0.1, 10% of the clients, 5 passes"
FEDERATIONS: dict[str, tuple[Keys, Sign | None]] = {
    BASE: ({}, None),
    "Dirichlet 0.05": ({"partition": "dirichlet:0.05"}, None),
    "Dirichlet 0.8": ({"partition": "dirichlet:0.8"}, "lower"),
    "5% of the clients": ({"participation": 0.05}, "higher"),
    "40% of the clients": ({"participation": 0.4}, "lower"),
    "17 passes": ({"epochs": 17}, None),
}


def measure(keys: Keys, seed: int) -> Mapping[str, float]:
    """Two gains of IMA in the accuracy of the last rounds, and the accuracy of the method without IMA.

    The first gain is over the method without IMA. The second gain is over the method with IMA's faster decay of the
    learning rate but without IMA's mean of models.
    """

    def accuracy(more: Keys) -> float:
        return fmean(accuracies(trained(more, seed))[-LAST:])

    with_ima = {**keys, **IMA}
    decay_only = control(with_ima)
    assert decay_only is not None  # the settings with IMA have a control
    gained, plain = accuracy(with_ima), accuracy(keys)
    return {GAIN: gained - plain, BEYOND_DECAY: gained - accuracy(decay_only), "accuracy of FedAvg": plain}


def _settings(common: Keys) -> tuple[Setting, ...]:
    return tuple(
        setting
        for name, (keys, claim) in FEDERATIONS.items()
        for setting in settings(common, {BASE: {}, name: keys}, BASE, claim={GAIN: claim} if claim else {})
        if setting.name == name
    )


MINIATURE = Miniature(
    name="ima-federations",
    question="Does IMA gain more where clients are unlike, where few take part, and after more passes?",
    source="IMA, Figure 6 (CIFAR-10; pictures only), sections 7.2.2, 7.2.4 and 7.2.5",
    scale=dict(ALONE.scale) | {"clients a round": ("5 to 40 of 100", "1 to 8 of 20")},
    settings=_settings(COMMON),
    quantities=(
        Quantity(GAIN, "% points, mean of the last 10 rounds"),
        Quantity(BEYOND_DECAY, "% points, over the same rates without averaging"),
        Quantity("accuracy of FedAvg", "%, mean of the last 10 rounds"),
    ),
    measure=measure,
    caveat=(
        "Every gain is the gain of IMA over FedAvg in the same federation, and these gains are compared. Section "
        "7.2.5 calls the gain stable in the number of passes; that is no ordering."
    ),
    quick=ALONE.quick,
).also(PAPER, _settings(PAPER_KEYS), seeds=3)
