"""Does IMA help every method?"""

from __future__ import annotations

from experiments.miniatures.ima import COMMON, IMA, measure
from experiments.miniatures.ima import MINIATURE as ALONE
from experiments.miniatures.miniature import Keys, Miniature, Setting

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

MINIATURE = Miniature(
    name="ima-methods",
    question="Does IMA help every method?",
    source="IMA, Table I (CIFAR-10, CNN, 2 classes a client)",
    scale=dict(ALONE.scale) | {"partition": ("2 classes a client", "2 classes a client")},
    settings=tuple(
        Setting(
            label + suffix,
            {**COMMON, **keys, **more},
            label if suffix else None,
            {"method": label + suffix, "setting": "#C=2", "table": "I"},
        )
        for label, keys in METHODS.items()
        for suffix, more in (("", {}), ("+IMA", IMA))
    ),
    quantities=ALONE.quantities,
    measure=measure,
    caveat=(
        "With equal shards all clients take as many steps: FedNova is then FedAvg. Every method is compared with "
        "itself without IMA, not with FedAvg."
    ),
    quick=ALONE.quick,
)
