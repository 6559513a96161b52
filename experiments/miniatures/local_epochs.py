"""Does FedGuCci lead at every number of local passes?"""

from __future__ import annotations

from dataclasses import replace

from experiments.miniatures.federated import CIFAR, accuracy, mean_accuracy
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Setting

COMMON = {
    "data": "digits",
    "model": "mlp:64-64",
    "clients": 10,
    "partition": "dirichlet:0.4",
    "rounds": 8,
    "batch_size": 64,
    "rate": 0.03,
    "rate_decay": 0.99,
    "weight_decay": 5e-4,
}
PASSES = 1, 3, 10
METHODS: dict[str, Keys] = {
    "FedAvg": {"method": "fedavg"},
    "FedGuCci": {"method": "fedgucci", "options": {"beta": 1.0}},
}


def _settings(common: Keys) -> tuple[Setting, ...]:
    return tuple(
        Setting(
            f"{label}, {passes} passes",
            {**common, **keys, "epochs": passes},
            None if label == "FedAvg" else f"FedAvg, {passes} passes",
            claim={} if label == "FedAvg" else {"test accuracy": "higher"},
        )
        for passes in PASSES
        for label, keys in METHODS.items()
    )


SMALL = Miniature(
    name="local-epochs",
    question="Does FedGuCci lead at every number of local passes?",
    source="FedGuCci, Figure 6 (CIFAR-10, Dirichlet 0.4, 60 clients, 200 rounds; a picture only)",
    scale={
        "images": ("50000 of 32 x 32 x 3", "1437 of 8 x 8"),
        "model": ("CNN of 122570 parameters", "MLP 64-64-64-10"),
        "clients": ("60", "10"),
        "rounds": ("200", "8"),
    },
    settings=_settings(COMMON),
    quantities=(accuracy(),),
    measure=mean_accuracy,
    caveat="beta is 1, since the paper does not state it.",
    quick={"samples": 200, "rounds": 2},
)

MINIATURE = replace(
    SMALL,
    larger={
        PAPER: SMALL.scaled(
            PAPER,
            _settings(COMMON | CIFAR | {"clients": 60, "rounds": 200}),
            {},
            caveat=f"{SMALL.caveat} The batch, 64, is that of its tables; the passes are those of the small scale.",
        )
    },
)
