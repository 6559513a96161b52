"""How many rounds does IMA save methods other than FedAvg, and from which round on should models be averaged?"""

from experiments.miniatures.ima import COMMON, PAPER_KEYS
from experiments.miniatures.ima_methods import METHODS
from experiments.miniatures.ima_start import MINIATURE as OF_FEDAVG, of_starts
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Setting

NAMES = "FedProx", "FedFA", "FedAdam", "FedYogi", "FedGMA"


def _settings(common: Keys) -> tuple[Setting, ...]:
    rows = [of_starts({**common, **METHODS[name]}, name, f"{name}, IMA from {{:.3g}}") for name in NAMES]
    return tuple(setting for row in rows for setting in row)


MINIATURE = Miniature(
    name="ima-start-methods",
    question="Does IMA save rounds of every method, from whichever round on it averages?",
    source="IMA, Table II (CIFAR-10, CNN, Dirichlet 0.1, methods other than FedAvg)",
    scale=OF_FEDAVG.scale,
    settings=_settings(COMMON),
    quantities=OF_FEDAVG.quantities,
    measure=OF_FEDAVG.measure,
    caveat=(
        "For each seed the target is the method's own mean accuracy over its last 10 rounds without IMA; the paper's "
        "target is 61.61 % for every method. Every method is compared with itself."
    ),
    quick=OF_FEDAVG.quick,
).also(PAPER, _settings(PAPER_KEYS), seeds=3)
