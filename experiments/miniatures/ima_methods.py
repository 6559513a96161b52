"""Does IMA help every method?"""

from experiments.miniatures.ima import COMMON, IMA, PAPER_KEYS, measure
from experiments.miniatures.ima import MINIATURE as ALONE
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
}
OF_CNN: dict[str, Keys] = {"FedASAM": {"method": "fedasam", "options": {"rho": 0.7, "eta": 0.2}}}


def _settings(common: Keys, methods: dict[str, Keys]) -> tuple[Setting, ...]:
    return tuple(
        Setting(
            label + suffix,
            {**common, **keys, **more},
            label if suffix else None,
            {"method": label + suffix, "setting": "#C=2", "table": "I"},
        )
        for label, keys in methods.items()
        for suffix, more in (("", {}), ("+IMA", IMA))
    )


MINIATURE = Miniature(
    name="ima-methods",
    question="Does IMA help every method?",
    source="IMA, Table I (CIFAR-10, CNN, 2 classes a client)",
    scale=dict(ALONE.scale) | {"partition": ("2 classes a client", "2 classes a client")},
    settings=_settings(COMMON, METHODS),
    quantities=ALONE.quantities,
    measure=measure,
    caveat=(
        "With equal shards all clients take equally many steps: FedNova is then FedAvg, up to rounding. Every "
        "method is compared with itself without IMA, not with FedAvg."
    ),
    quick=ALONE.quick,
).also(
    PAPER,
    _settings(PAPER_KEYS | {"partition": "shards:2"}, METHODS | OF_CNN),
    seeds=3,
    adds=(
        "FedProx's mu and FedFA's lambda are the best of three in the paper, which does not say which; here they are "
        "the defaults."
    ),
)
