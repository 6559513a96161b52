"""Does averaging bring the global model from the wall of its basin to the bottom?"""

import json
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from experiments.miniatures.federated import settings, trained
from experiments.miniatures.ima import COMMON, IMA, MINIATURE as ALONE, PAPER_KEYS
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Quantity, Setting, Sign
from ntkfl.training import Run
from ntkfl.training.engine.measurement import Score, evaluate
from ntkfl.training.tree import Params, tree_map

BASE = "FedAvg"
LOSS, ABOVE = "test loss", "above the lowest"
CLAIM: Mapping[str, Sign] = {LOSS: "lower", ABOVE: "lower"}
# places on the line through the model without IMA (at 0) and the other model (at 1)
PLACES = np.linspace(-0.5, 1.5, 41)
LAST_MEAN = IMA | {
    "ima_exploration": "none",
    "ima_start": 0.999,
}  # the mean is taken after the last round, so no client trains from it


def measure(keys: Keys, seed: int) -> Mapping[str, float]:
    """The loss of the last global model, and its excess over the lowest loss on a line.

    The line goes through the last models of two runs that differ only in IMA. The first run has no IMA. The second run
    has the IMA that `keys` describes. If `keys` describes no IMA, the second run has that of the constant `IMA`.
    """
    plain = {key: value for key, value in keys.items() if not key.startswith("ima")}
    of_ima = keys if "ima" in keys else plain | IMA
    first, second = (_run(json.dumps(dict(chosen)), seed) for chosen in (plain, of_ima))

    def score(place: float) -> Score:
        return _score(first, tree_map(lambda a, b: (1 - place) * a + place * b, first.params, second.params))

    own = score(1.0 if "ima" in keys else 0.0)
    lowest = min(own.loss, *(score(place).loss for place in PLACES.tolist()))
    return {LOSS: own.loss, ABOVE: own.loss - lowest, "test error": 100 * (1 - own.accuracy)}


@lru_cache(maxsize=2)  # the run without IMA is used again, since every setting needs it
def _run(keys: str, seed: int) -> Run:
    return trained(json.loads(keys), seed)


def _score(done: Run, params: Params) -> Score:
    """Loss and accuracy of the run's model with these parameters."""
    x, y = done.federation.data.x_test, done.federation.data.y_test
    assert x is not None and y is not None  # image sets have test samples
    return evaluate(lambda some: done.model.outputs(params, some), x, y)


def _settings(common: Keys) -> tuple[Setting, ...]:
    return settings(
        common, {BASE: {}, f"{BASE}+IMA": IMA, f"{BASE}, mean of its last five": LAST_MEAN}, BASE, claim=CLAIM
    )


MINIATURE = Miniature(
    name="ima-line",
    question="Does averaging bring the global model from the wall of its basin to the bottom?",
    source="IMA, Figures 5(b), 5(c) and 7(c) (CIFAR-10; pictures only; FedAvg of all methods), sections 6.1 and 7.3.3",
    scale=dict(ALONE.scale),
    settings=_settings(COMMON),
    quantities=(
        Quantity(LOSS, "nats, of the last global model"),
        Quantity(ABOVE, f"nats, above the lowest of {len(PLACES)} points of the line to the other model"),
        Quantity("test error", "%, of the last global model"),
    ),
    measure=measure,
    caveat=(
        "The line leads from the method's last model to IMA's last model, or to the mean of the method's last five "
        "models, from which no client has trained; it goes on beyond both ends by half its length. The control of "
        "IMA has the same rates, no averaging, and a line of its own."
    ),
    quick=ALONE.quick,
).also(PAPER, _settings(PAPER_KEYS), seeds=3)
