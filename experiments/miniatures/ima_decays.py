"""Which decay of the rate should IMA have with methods other than FedAvg?"""

from experiments.miniatures.federated import settings
from experiments.miniatures.ima import (
    COMMON,
    MINIATURE as OF_FEDAVG,
    OF_TABLE_3,
    PAPER_KEYS,
    VARIATIONS,
    measure,
    printed_of,
)
from experiments.miniatures.ima_methods import METHODS, OF_CNN
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Setting

NAMES = "FedProx", "FedASAM", "FedFA", "FedNova", "FedAdam", "FedYogi", "FedGMA"


def _settings(common: Keys, methods: dict[str, Keys], **period: int) -> tuple[Setting, ...]:
    chosen: list[Setting] = []
    for name in NAMES:
        labels = {name: name} | {decay: f"{name}, {decay}" for decay in OF_TABLE_3}
        own: dict[str, Keys] = {name: {}} | {decay: VARIATIONS[decay] for decay in OF_TABLE_3}
        chosen += settings(
            {**common, **methods[name]},
            {labels[decay]: {**keys, **(period if "ima_period" in keys else {})} for decay, keys in own.items()},
            name,
            {labels[decay]: row for decay, row in printed_of(name).items()},
        )
    return tuple(chosen)


MINIATURE = Miniature(
    name="ima-decays",
    question="Which decay of the rate helps IMA with methods other than FedAvg?",
    source="IMA, Table III (CIFAR-10, CNN, Dirichlet 0.1, methods other than FedAvg)",
    scale=OF_FEDAVG.scale,
    settings=_settings(COMMON, METHODS),
    quantities=OF_FEDAVG.quantities,
    measure=measure,
    caveat=(
        "Every method is compared with itself without IMA; the control of each kind of IMA has the same rates and "
        "passes, and no averaging."
    ),
    quick=OF_FEDAVG.quick,
).also(PAPER, _settings(PAPER_KEYS, METHODS | OF_CNN, ima_period=20), seeds=3)
