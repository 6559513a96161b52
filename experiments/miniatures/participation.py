"""Few clients a round, classes dealt very unevenly: what remains of the methods' gains?"""

from __future__ import annotations

from dataclasses import replace

from experiments.miniatures.federated import CIFAR, accuracy, mean_accuracy
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Setting

COMMON = {
    "data": "digits",
    "model": "mlp:64-64",
    "clients": 40,
    "partition": "dirichlet:0.1",
    "rounds": 40,
    "epochs": 3,
    "batch_size": 64,
    "rate": 0.04,
    "rate_decay": 0.99,
    "weight_decay": 5e-4,
}
METHODS = {"FedAvg": "fedavg", "FedSAM": "fedsam", "FedGuCci": "fedgucci", "FedGuCci+": "fedgucci+"}


def _settings(common: Keys, share: float, of_paper: str) -> tuple[Setting, ...]:
    name = f"{{}}, {share:.0%} of the clients"
    return tuple(
        Setting(
            name.format(label),
            {**common, "method": method, "participation": share},
            None if method == "fedavg" else name.format("FedAvg"),
            {"method": label, "setting": f"M=100,Dir alpha=0.1,participation={of_paper}"},
        )
        for label, method in METHODS.items()
    )


SMALL = Miniature(
    name="participation",
    question="Do the gains last with few clients a round and very uneven classes?",
    source="FedGuCci, Table 10 (CIFAR-10, Dirichlet 0.1, 5 and 10 % of 100 clients)",
    scale={
        "images": ("50000 of 32 x 32 x 3", "1437 of 8 x 8"),
        "model": ("CNN of 122570 parameters", "MLP 64-64-64-10"),
        "clients a round": ("5 or 10 of 100", "4 or 8 of 40"),
        "rounds": ("not stated", "40"),
    },
    settings=_settings(COMMON, 0.1, "5%") + _settings(COMMON, 0.2, "10%"),
    quantities=(accuracy(paper="FedGuCci", table="10", dataset="CIFAR-10"),),
    measure=mean_accuracy,
    quick={"samples": 400, "rounds": 2},
)

PAPER_KEYS = COMMON | CIFAR | {"clients": 100, "rounds": 150}
MINIATURE = replace(
    SMALL,
    larger={
        PAPER: SMALL.scaled(
            PAPER,
            _settings(PAPER_KEYS, 0.05, "5%") + _settings(PAPER_KEYS, 0.1, "10%"),
            {"rounds": "150"},
            caveat="Rounds, passes, batch and rate are not stated; they are those of Table 4, on the same data.",
        )
    },
)
