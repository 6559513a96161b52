"""How far do clients move from the global model? Does a decaying rate shorten this distance and improve the model?"""

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.miniatures.federated import ACCURACY, accuracies, accuracy, trained
from experiments.miniatures.ima import COMMON, LAST, MINIATURE as ALONE, PAPER_KEYS
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Quantity, Setting, Sign

DISTANCE = "distance"
SILO: Keys = {"clients": 10, "participation": 1.0, "partition": "shards:2"}
BASE = "constant rate"
# there is no claim about the distance, since a smaller rate makes the distance smaller in any case
BETTER: Mapping[str, Sign] = {ACCURACY: "higher"}


def measure(keys: Keys, seed: int) -> Mapping[str, Sequence[float]]:
    """After each round, the accuracy, and the root mean square distance of clients from the model they received."""
    done = trained(keys, seed)
    return {DISTANCE: np.sqrt(done.metrics["drift"][1:]).tolist(), ACCURACY: accuracies(done).tolist()}


def _settings(common: Keys) -> tuple[Setting, ...]:
    return (
        Setting(BASE, {**common, **SILO, "rate_decay": 1.0}),
        Setting("rate times .99 a round", {**common, **SILO, "rate_decay": 0.99}, BASE, claim=BETTER),
    )


MINIATURE = Miniature(
    name="ima-locality",
    question="Do clients stay nearer to the global model where the rate decays, and is this model better for that?",
    source="IMA, Figure 3 (CIFAR-10, CNN, 2 classes a client, all of 10 clients; pictures only), section 5.3.2",
    scale={key: ALONE.scale[key] for key in ("images", "model")} | {"clients": ("10", "10"), "rounds": ("400", "200")},
    settings=_settings(COMMON | {"rounds": 200}),
    quantities=(
        Quantity(
            DISTANCE, f"of parameters, root mean square over the clients, mean of the last {LAST} rounds", last=LAST
        ),
        accuracy(LAST),
    ),
    measure=measure,
    caveat=(
        "With a smaller rate every client moves less far, whatever the loss looks like. So it is no finding that the "
        "distance falls with the rate. The paper also says that the model is better, and this is tested. Figures 2 "
        "and 4 show parts of the error; `ntkfl study run averaging-factors` has its exact decomposition."
    ),
    quick=ALONE.quick,
).also(PAPER, _settings(PAPER_KEYS), seeds=3)
