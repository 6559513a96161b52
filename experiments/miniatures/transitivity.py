"""If models are each connected to one anchor, are they connected to each other, in pairs and in larger groups?"""

from collections.abc import Mapping
from dataclasses import replace

from experiments.miniatures.federated import DIGITS, SCALE, settings
from experiments.miniatures.grid_barriers import POINTS, group_barriers, segments
from experiments.miniatures.miniature import Keys, Miniature, Quantity
from experiments.miniatures.solo_models import Solo
from ntkfl.training.tree import tree_map

GROUPS = 2, 4, 8, 16
EPOCHS = 10
COMMON = DIGITS | {"epochs": EPOCHS, "models": 16}
# The keys are the words for an anchor in the name of a setting. Each value has the number of epochs for which this
# anchor is trained, and the fields that select the paper's numbers.
ANCHORS = {
    "trained anchor": (EPOCHS, {"table": "1", "method": "CE + connectivity loss (trained anchor)"}),
    "anchor of 1 epoch": (1, {"table": "7", "method": "connectivity, semi-trained (1 epoch) anchor"}),
    "random anchor": (0, {"table": "7", "method": "connectivity, random-init anchor"}),
}
NAMED = {f"beta {beta}, {anchor}": (float(beta), *of) for anchor, of in ANCHORS.items() for beta in (1, 3)}
VARIATIONS = {"cross-entropy": {"anchor_epochs": EPOCHS, "beta": 0.0}}
VARIATIONS |= {name: {"anchor_epochs": epochs, "beta": beta} for name, (beta, epochs, _) in NAMED.items()}
PRINTED = {"cross-entropy": {"table": "1", "method": "vanilla CE"}} | {name: at for name, (*_, at) in NAMED.items()}


def measure(keys: Keys, seed: int) -> Mapping[str, float]:
    """The quantities of Tables 1 and 7 and of Figure 4, measured on the test samples."""
    solo = Solo.of(keys, seed)
    anchor = solo.anchor(keys["anchor_epochs"], seed)
    models = solo.trained(solo.starts(keys["models"], seed), anchor, keys["beta"], seed)
    pairs = segments(solo.scores, models, tree_map(lambda w: w.roll(-1, 0), models))
    anchored = segments(solo.scores, models, anchor)
    barriers = {
        "accuracy": 100 * pairs.accuracies[0].mean(),
        "accuracy midway": 100 * pairs.accuracies[POINTS // 2].mean(),
        "accuracy barrier": pairs.accuracy_barriers().mean(),
        "loss barrier": pairs.loss_barriers().mean(),
        "barrier to the anchor": anchored.accuracy_barriers().mean(),
    }
    barriers |= {f"group of {size}": group_barriers(solo.scores, models, size).mean() for size in GROUPS}
    return {name: float(value) for name, value in barriers.items()}


MINIATURE = Miniature(
    name="transitivity",
    question="Are models that are each connected to one anchor connected to each other, two of them and many?",
    source="FedGuCci, Tables 1 and 7 (CIFAR-10, CNN), Figures 2 and 4 (pictures only)",
    scale={
        **SCALE,
        "epochs, rate, beta": ("not stated", f"{EPOCHS}; .05, momentum .9; as named"),
        "pairs": ("not stated", "16, of 16 models"),
    },
    settings=tuple(
        replace(setting, claim={"barrier to the anchor": "lower"}) if "trained anchor" in setting.name else setting
        for setting in settings(COMMON, VARIATIONS, "cross-entropy", PRINTED)
    ),
    quantities=(
        Quantity("accuracy", "%, of one model", {"metric": "individual accuracy %"}),
        Quantity("accuracy midway", "%, of the mean of two", {"metric": "fused (midpoint) accuracy %"}),
        Quantity("accuracy barrier", f"share, of two, {POINTS} points", {"metric": "accuracy barrier"}),
        Quantity("loss barrier", f"nats, of two, {POINTS} points"),
        Quantity("barrier to the anchor", f"share, {POINTS} points"),
        *(Quantity(f"group of {size}", "share, accuracy barrier of the mean") for size in GROUPS),
    ),
    measure=measure,
    caveat=(
        "Barriers are maxima over a grid, hence lower bounds. `ntkfl barrier` computes exact barriers of two-layer "
        "networks, and `ntkfl study run trained-transitivity` uses these to ask whether a low loss on the way to the "
        "anchor predicts a low barrier. For the setting with cross-entropy alone, 'the anchor' is the trained "
        "anchor, though this training does not use it. The paper does not state its beta; with a random anchor beta "
        "was probably below 3, as models lose far more accuracy here than in the paper."
    ),
    quick={"samples": 200, "test": 100, "epochs": 1},
    no_paper="FedGuCci states neither the epochs nor the rate and the batch of these models",
)
