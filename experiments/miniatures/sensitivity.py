"""How many anchors should FedGuCci have, and how large a weight of the connectivity loss?"""

from experiments.miniatures.federated import (
    ACCURACY,
    CIFAR,
    DIGITS,
    RECIPE,
    SCALE,
    accuracy,
    accuracy_curve,
    settings,
)
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Setting

COMMON = DIGITS | RECIPE | {"clients": 10, "partition": "dirichlet:0.4", "rounds": 150, "rate": 0.02}
METHODS: dict[str, Keys] = {"FedAvg": {"method": "fedavg"}, "FedGuCci, N 1": {"method": "fedgucci"}}
METHODS |= {f"FedGuCci, N {count}": {"method": "fedgucci", "options": {"anchors": count}} for count in (2, 3, 5)}
METHODS |= {f"FedGuCci, beta {beta:g}": {"method": "fedgucci", "options": {"beta": beta}} for beta in (1.0, 3.0)}


def _settings(common: Keys) -> tuple[Setting, ...]:
    return settings(common, METHODS, "FedAvg", claim={ACCURACY: "higher"})


MINIATURE = Miniature(
    name="sensitivity",
    question="Is FedGuCci above FedAvg for every number of anchors N and every beta?",
    source="FedGuCci, Figure 7 (CIFAR-10, Dirichlet 0.4, 60 clients; a picture only)",
    scale=SCALE | {"clients": ("60", "10"), "rounds": ("150", "150")},
    settings=_settings(COMMON),
    quantities=(accuracy(),),
    measure=accuracy_curve,
    caveat=(
        "The settings N = 1, 2, 3 and 5 have the released beta, .1; the values of the figure are not printed and can "
        "only be read off the picture. With several anchors the linear limit is FedAvg whose clients start nearer to "
        "the anchors' mean; the control has the step size of this limit, and its clients start at the global model."
    ),
    quick={"samples": 200, "rounds": 6},
).also(PAPER, _settings(COMMON | CIFAR | {"clients": 60}))
