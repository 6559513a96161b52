"""Do the methods' gains remain with more clients, and with more clients in each round?"""

from collections.abc import Mapping

from experiments.miniatures.federated import CIFAR, SCALE, accuracy, accuracy_curve
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Setting
from experiments.miniatures.participation import COMMON as FEW, of_methods

COMMON = {**FEW, "partition": "dirichlet:1.0", "rounds": 400}
CLIENTS = {20: "100", 40: "200"}  # number of clients here, and in the paper


def _settings(common: Keys, clients: Mapping[int, str]) -> tuple[Setting, ...]:
    listed: tuple[Setting, ...] = ()
    for here, there in clients.items():
        for share in (0.3, 0.6):
            keys, which = {**common, "clients": here, "participation": share}, f"{share:.0%} of {here} clients"
            listed += of_methods(keys, which, f"M={there},participation={share:g},Dir alpha=1.0,T=150,E=3,B=64,lr=0.04")
    return listed


MINIATURE = Miniature(
    name="population",
    question="Do the gains hold for more clients, and for more of them a round?",
    source="FedGuCci, Table 4 (CIFAR-10, Dirichlet 1, 30 and 60 % of 100 and 200 clients)",
    scale=SCALE | {"clients": ("100 and 200", "20 and 40"), "rounds": ("150", "400")},
    settings=_settings(COMMON, CLIENTS),
    quantities=(accuracy(paper="FedGuCci", table="4", dataset="CIFAR-10"),),
    measure=accuracy_curve,
    caveat="beta is .1, the released default, since the paper does not state it.",
    quick={"samples": 400, "rounds": 6},
).also(PAPER, _settings(COMMON | CIFAR | {"rounds": 150}, {100: "100", 200: "200"}))
