"""Do the federated methods rank as in Table 2 of FedGuCci?"""

from __future__ import annotations

from experiments.miniatures.federated import accuracy, mean_accuracy, settings
from experiments.miniatures.miniature import Keys, Miniature

COMMON = {
    "data": "fashion-mnist:14",
    "samples": 1000,
    "test": 2000,
    "model": "mlp:64-64",
    "clients": 10,
    "partition": "dirichlet:0.5",
    "rounds": 25,
    "epochs": 3,
    "batch_size": 50,
    "rate": 0.05,
    "rate_decay": 0.99,
    "weight_decay": 5e-4,
}
METHODS: dict[str, Keys] = {
    "FedAvg": {"method": "fedavg"},
    "Local": {"method": "local"},
    "FedProx": {"method": "fedprox"},
    "FedDyn": {"method": "feddyn"},
    "FedDyn, no momentum": {"method": "feddyn", "momentum": 0.0},
    "SCAFFOLD": {"method": "scaffold"},
    "MOON": {"method": "moon"},
    "FedRoD": {"method": "fedrod"},
    "FedLC": {"method": "fedlc"},
    "FedSAM": {"method": "fedsam"},
    "FedGuCci": {"method": "fedgucci"},
    "FedGuCci, beta 1": {"method": "fedgucci", "options": {"beta": 1.0}},
    "FedGuCci+": {"method": "fedgucci+"},
}
PRINTED = {name: {"method": name} for name in METHODS if "," not in name}

MINIATURE = Miniature(
    name="ordering",
    question="Which federated methods do better than FedAvg, clients having unlike classes?",
    source="FedGuCci, Table 2 (Fashion-MNIST, Dirichlet 0.5)",
    scale={
        "images": ("60000 of 32 x 32", "1000 of 14 x 14"),
        "model": ("VGG11", "MLP 196-64-64-10"),
        "clients": ("50", "10"),
        "rounds": ("400", "25"),
        "optimizer": ("Adam, rate .08 as printed", "SGD, rate .05, momentum .9, weight decay 5e-4"),
    },
    settings=settings(COMMON, METHODS, "FedAvg", PRINTED),
    quantities=(
        accuracy(
            paper="FedGuCci", table="2", dataset="Fashion-MNIST", setting="M=50,E=3,full participation,Dir alpha=0.5"
        ),
    ),
    measure=mean_accuracy,
    caveat=(
        "The printed FedProx (10.00 %, chance) and, in the released code, SCAFFOLD are not the methods of those names: "
        "there FedProx has another optimizer and SCAFFOLD no correction. Here both are as their papers have them."
    ),
    quick={"samples": 300, "test": 200, "rounds": 2},
)
