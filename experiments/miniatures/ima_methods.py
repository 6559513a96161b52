"""Does IMA help every method?"""

from experiments.miniatures.federated import accuracy, settings
from experiments.miniatures.ima import COMMON, IMA, LAST, MINIATURE as ALONE, PAPER_KEYS, measure
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Setting

METHODS: dict[str, Keys] = {
    "FedAvg": {"method": "fedavg"},
    "FedProx": {"method": "fedprox"},
    "FedASAM": {"method": "fedasam", "options": {"rho": 0.2, "eta": 0.05}},
    "FedFA": {"method": "fedfa", "options": {"anchor_momentum": 0.9}},
    "FedNova": {"method": "fednova"},
    "FedAdam": {"method": "fedadam"},
    "FedYogi": {"method": "fedyogi"},
    "FedGMA": {"method": "fedgma"},
    "FedGMA, as released": {"method": "fedgma", "options": {"released": True}},
}
OF_TABLE = {"model": "CNN", "metric": "test accuracy %, mean of last 10 rounds"}
OF_CNN: dict[str, Keys] = {"FedASAM": {"method": "fedasam", "options": {"rho": 0.7, "eta": 0.2}}}


def _settings(common: Keys, methods: dict[str, Keys]) -> tuple[Setting, ...]:
    listed: list[Setting] = []
    for label, keys in methods.items():
        suffixes = {"": {}, "+IMA": IMA, ", faster decay only": IMA | {"ima_window": 1}}
        printed = label.partition(",")[0]
        listed += settings(
            {**common, **keys},
            {f"{label}{suffix}": more for suffix, more in suffixes.items()},
            label,
            {label + ending: {"method": printed + ending, "setting": "#C=2", "table": "I"} for ending in ("", "+IMA")},
        )
    return tuple(listed)


MINIATURE = Miniature(
    name="ima-methods",
    question="Does IMA help every method?",
    source="IMA, Table I (Fashion-MNIST, CNN, 2 classes a client)",
    scale=dict(ALONE.scale)
    | {
        "images": ("60000 of 28 x 28", "2000 of 14 x 14"),
        "rounds, averaging from": ("300, 225", "300, 225"),
        "model": ("CNN", "MLP 196-64-64-10"),
    },
    settings=_settings(COMMON | {"partition": "shards:2"}, METHODS),
    quantities=(accuracy(LAST, dataset="FMNIST", **OF_TABLE), ALONE.quantities[1]),
    measure=measure,
    caveat=(
        "With equal shards all clients take equally many steps: FedNova is then FedAvg, up to rounding. Every method "
        "is compared with itself without IMA, not with FedAvg; its control has IMA's rates and no averaging. The "
        "code that IMA released for FedGMA is nearly FedAvg, and so is the printed baseline of FedGMA."
    ),
    quick=ALONE.quick,
).also(
    PAPER,
    _settings(PAPER_KEYS | {"partition": "shards:2"}, METHODS | OF_CNN),
    seeds=3,
    quantities=(accuracy(LAST, dataset="CIFAR-10", **OF_TABLE), ALONE.quantities[1]),
    source="IMA, Table I (CIFAR-10, CNN, 2 classes a client)",
    adds=(
        "FedProx's mu and FedFA's lambda are the best of three in the paper, which does not say which; here they are "
        "the defaults."
    ),
)
