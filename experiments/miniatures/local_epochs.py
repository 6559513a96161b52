"""Is FedGuCci better than FedAvg at every number of local passes?"""

from experiments.miniatures.federated import ACCURACY, CIFAR, DIGITS, RECIPE, SCALE, accuracy, accuracy_curve, settings
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Setting

COMMON = DIGITS | RECIPE | {"clients": 10, "partition": "dirichlet:0.4", "rounds": 200, "rate": 0.03}
PASSES = 1, 3, 10
METHODS: dict[str, Keys] = {
    "FedAvg": {"method": "fedavg"},
    "FedGuCci": {"method": "fedgucci", "options": {"beta": 1.0}},
}


def _settings(common: Keys) -> tuple[Setting, ...]:
    listed: tuple[Setting, ...] = ()
    for passes in PASSES:
        keys, named = {**common, "epochs": passes}, f"{{}}, {passes} passes"
        listed += settings(keys, METHODS, "FedAvg", named=named, claim={ACCURACY: "higher"})
    return listed


MINIATURE = Miniature(
    name="local-epochs",
    question="Does FedGuCci lead at every number of local passes?",
    source="FedGuCci, Figure 6 (CIFAR-10, Dirichlet 0.4, 60 clients, 200 rounds; a picture only)",
    scale=SCALE | {"clients": ("60", "10"), "rounds": ("200", "200")},
    settings=_settings(COMMON),
    quantities=(accuracy(),),
    measure=accuracy_curve,
    caveat="beta is 1, since the paper does not state it.",
    quick={"samples": 200, "rounds": 6},
).also(
    PAPER,
    _settings(COMMON | CIFAR | {"clients": 60}),
    adds="The batch, 64, is that of its tables; the passes are those of the small scale.",
)
