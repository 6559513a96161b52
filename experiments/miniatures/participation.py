"""Do the methods' gains remain with few clients a round and very uneven classes?"""

from experiments.miniatures.federated import CIFAR, DIGITS, RECIPE, SCALE, accuracy, accuracy_curve, settings
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Setting

COMMON = DIGITS | RECIPE | {"clients": 40, "partition": "dirichlet:0.1", "rounds": 800}
PAPER_KEYS = COMMON | CIFAR | {"clients": 100, "rounds": 150}
METHODS: dict[str, Keys] = {name: {"method": name.lower()} for name in ("FedAvg", "FedSAM", "FedGuCci", "FedGuCci+")}


def of_methods(common: Keys, which: str, setting: str) -> tuple[Setting, ...]:
    """One setting for each method; all have the keys `common`."""
    printed = {label: {"method": label, "setting": setting} for label in METHODS}
    return settings(common, METHODS, "FedAvg", printed, f"{{}}, {which}")


def _settings(common: Keys, share: float, of_paper: str) -> tuple[Setting, ...]:
    setting = f"M=100,Dir alpha=0.1,participation={of_paper}"
    return of_methods({**common, "participation": share}, f"{share:.0%} of the clients", setting)


MINIATURE = Miniature(
    name="participation",
    question="Do the gains last with few clients a round and very uneven classes?",
    source="FedGuCci, Table 10 (CIFAR-10, Dirichlet 0.1, 5 and 10 % of 100 clients)",
    scale=SCALE | {"clients a round": ("5 or 10 of 100", "4 or 8 of 40"), "rounds": ("not stated", "800")},
    settings=_settings(COMMON, 0.1, "5%") + _settings(COMMON, 0.2, "10%"),
    quantities=(accuracy(paper="FedGuCci", table="10", dataset="CIFAR-10"),),
    measure=accuracy_curve,
    quick={"samples": 400, "rounds": 6},
).also(
    PAPER,
    _settings(PAPER_KEYS, 0.05, "5%") + _settings(PAPER_KEYS, 0.1, "10%"),
    {"rounds": "150"},
    caveat="Rounds, passes, batch and rate are not stated; they are those of Table 4, on the same data.",
)
