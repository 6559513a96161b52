"""Few clients a round, classes dealt very unevenly: what remains of the methods' gains?"""

from __future__ import annotations

from experiments.miniatures.federated import accuracy, mean_accuracy
from experiments.miniatures.miniature import Miniature, Setting

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


def _settings(share: float, of_paper: str) -> tuple[Setting, ...]:
    name = f"{{}}, {share:.0%} of the clients"
    return tuple(
        Setting(
            name.format(label),
            {**COMMON, "method": method, "participation": share},
            None if method == "fedavg" else name.format("FedAvg"),
            {"method": label, "setting": f"M=100,Dir alpha=0.1,participation={of_paper}"},
        )
        for label, method in METHODS.items()
    )


MINIATURE = Miniature(
    name="participation",
    question="Do the gains last with few clients a round and very uneven classes?",
    source="FedGuCci, Table 10 (CIFAR-10, Dirichlet 0.1, 5 and 10 % of 100 clients)",
    scale={
        "images": ("50000 of 32 x 32 x 3", "1437 of 8 x 8"),
        "model": ("CNN of 122570 parameters", "MLP 64-64-64-10"),
        "clients a round": ("5 or 10 of 100", "4 or 8 of 40"),
        "rounds": ("not stated", "40"),
    },
    settings=_settings(0.1, "5%") + _settings(0.2, "10%"),
    quantities=(accuracy(paper="FedGuCci", table="10", dataset="CIFAR-10"),),
    measure=mean_accuracy,
    quick={"samples": 400, "rounds": 2},
)
