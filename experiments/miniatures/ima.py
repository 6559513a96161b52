"""Which part of IMA helps: the mean of the last global models, or the faster decay of the rate? And which decay?"""

from collections.abc import Mapping, Sequence
from statistics import stdev
from typing import Any

from experiments.miniatures.federated import ACCURACY, accuracies, accuracy, settings, trained
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Quantity

ROUND_TO_ROUND = "round to round"
LAST = 10  # number of the last rounds over which IMA reports the mean
COMMON: dict[str, Any] = {
    "data": "fashion-mnist:14",
    "samples": 2000,
    "test": 1000,
    "model": "mlp:64-64",
    "method": "fedavg",
    "clients": 20,
    "partition": "dirichlet:0.1",
    "participation": 0.1,
    "rounds": 300,
    "epochs": 5,
    "batch_size": 50,
    "rate": 0.01,
    "rate_decay": 0.99,
}
IMA: dict[str, Any] = {"ima": True, "ima_window": 5}
# a fifth of the 75 rounds with averaging, as the paper's period of 20 is a fifth of its 100 rounds with averaging
FIFTH: dict[str, Any] = {"ima_period": 15}
RELEASED: dict[str, Any] = {"ima_released": True}
VARIATIONS: dict[str, Keys] = {
    "FedAvg": {},
    "faster decay only": IMA | {"ima_window": 1},  # a window of one model means no averaging
    "averaging only": IMA | {"ima_exploration": "none"},
    "IMA": IMA,
    "IMA, constant rate": IMA | {"ima_exploration": "constant"},
    "IMA, cyclic rate": IMA | FIFTH | {"ima_exploration": "cyclic"},
    "IMA, fewer passes": IMA | FIFTH | {"ima_exploration": "epochs"},
    "IMA, as released": IMA | RELEASED,
    "IMA, cyclic rate, as released": IMA | RELEASED | FIFTH | {"ima_exploration": "cyclic"},
    "IMA, fewer passes, as released": IMA | RELEASED | FIFTH | {"ima_exploration": "epochs"},
}
PAPER_KEYS = COMMON | {
    "data": "cifar-10",
    "samples": None,
    "test": None,
    "model": "ima-cnn",
    "clients": 100,
    "rounds": 400,
    "weight_decay": 1e-3,  # weight decay of the released code
}
OF_TABLE_3 = {
    "averaging only": "no additional decay",
    "IMA": "exponential (0.03/round)",
    "IMA, constant rate": "constant lr 5e-5",
    "IMA, cyclic rate": "cyclic 1e-2..5e-5, period 20",
    "IMA, fewer passes": "one epoch fewer per 20 rounds",
}


def printed_of(method: str) -> dict[str, Keys]:
    """The fields that select the paper's numbers: Table I without IMA, and Table III for IMA with each decay."""
    decays: dict[str, Keys] = {
        name: {"table": "III", "method": f"{method}+IMA", "setting": f"Dir 0.1, IMA decay={decay}"}
        for name, decay in OF_TABLE_3.items()
    }
    return {method: {"table": "I", "method": method, "setting": "Dir 0.1"}} | decays


PRINTED = printed_of("FedAvg")
PRINTED |= {name: PRINTED[name.removesuffix(", as released")] for name in VARIATIONS if name.endswith("as released")}


def measure(keys: Keys, seed: int) -> Mapping[str, float | Sequence[float]]:
    """The accuracy after each round, and its standard deviation over the last rounds."""
    per_round = accuracies(trained(keys, seed)).tolist()
    return {ACCURACY: per_round, ROUND_TO_ROUND: stdev(per_round[-LAST:])}


MINIATURE = Miniature(
    name="ima",
    question="Which half of IMA helps: averaging the last global models, or the faster decay of the rate?",
    source="IMA, Tables I and III (CIFAR-10, CNN, Dirichlet 0.1, FedAvg)",
    scale={
        "images": ("50000 of 32 x 32 x 3", "2000 of Fashion-MNIST, 14 x 14"),
        "model": ("CNN of 772682 parameters", "MLP 196-64-64-10"),
        "clients a round": ("10 of 100", "2 of 20"),
        "rounds, averaging from": ("400, 300", "300, 225, as printed for Fashion-MNIST"),
    },
    settings=settings(COMMON, VARIATIONS, "FedAvg", PRINTED),
    quantities=(
        accuracy(LAST, dataset="CIFAR-10", model="CNN", metric="test accuracy %, mean of last 10 rounds"),
        Quantity(ROUND_TO_ROUND, "% points, standard deviation over the last 10 rounds"),
    ),
    measure=measure,
    caveat=(
        "Rates, decays, passes and batches are the printed ones. The paper's baselines never get the faster decay; "
        "the control of each kind of IMA has the same rates and passes, and no averaging. In the released code "
        "averaging begins one round later. If it lowers the passes, the rate returns to its first value when "
        "averaging begins. The released cycle goes from the rate reached by then down to the lowest rate and up to "
        "twice the reached rate, while the text prints .01 to 5e-5."
    ),
    quick={"rounds": 12, "samples": 400},
).also(
    PAPER,
    settings(
        PAPER_KEYS,
        {name: {**own, "ima_period": 20} if "ima_period" in own else own for name, own in VARIATIONS.items()},
        "FedAvg",
        PRINTED,
    ),
    seeds=3,
    caveat="The paper's baselines never get the faster decay; the control of each kind of IMA does.",
)
