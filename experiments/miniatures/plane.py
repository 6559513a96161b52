"""What the loss looks like in the plane of three models, trained alone or clients of a federation, and their mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from experiments.miniatures.federated import DIGITS, IMAGES
from experiments.miniatures.miniature import Keys, Miniature, Quantity, Setting
from experiments.miniatures.model_plane import ThreeModels
from experiments.miniatures.solo_models import Solo
from ntkfl.training.runs.training_run import prepared

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure

EPOCHS = 10
ALONE = DIGITS | {"epochs": EPOCHS}
CLIENTS = DIGITS | {
    "dtype": "float64",
    "clients": 20,
    "partition": "shards:2",
    "participation": 0.15,
    "epochs": 5,
    "batch_size": 50,
    "rate_decay": 0.99,
}
POINTS = 31  # a side of the picture
HIGHEST = 4.0  # nats; what is higher has one colour


def three_models(keys: Keys, seed: int) -> ThreeModels:
    """Three models trained alone, or the three clients of the round that follows `rounds` rounds."""
    if "beta" in keys:
        solo = Solo.of(keys, seed)
        anchor = solo.anchor(keys["epochs"], seed)
        return ThreeModels(solo.model, solo.data, solo.trained(solo.starts(3, seed), anchor, keys["beta"], seed))
    done = prepared("fedavg", **{**keys, "seed": seed}).train()
    ends = done.federation.round(done.state, keep_ends=True).ends
    assert ends is not None  # they were asked for
    return ThreeModels(done.model, done.federation.data, ends)


def measure(keys: Keys, seed: int) -> Mapping[str, float]:
    """Accuracies of the three and of their mean, and how far the loss rises between them."""
    three = three_models(keys, seed)
    alone, mean = 100 * np.array([corner.accuracy for corner in three.corners()]), 100 * three.centre().accuracy
    return {
        "accuracy": float(alone.mean()),
        "accuracy of the mean": mean,
        "mean less the best": mean - float(alone.max()),
        "rise": three.rise(),
    }


def draw(quick: Keys) -> Figure:
    """The planes of all settings, for the first seed, side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(MINIATURE.settings), 4.4), layout="constrained")
    panels = figure.subplots(1, len(MINIATURE.settings), squeeze=False)[0]
    for panel, setting in zip(panels, MINIATURE.settings, strict=True):
        filled = _panel(panel, three_models({**setting.keys, **quick}, 0))
        panel.set_title(setting.name)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.colorbar(filled, ax=panels, label=f"mean test loss [nats], cut off at {HIGHEST:g}")
    return figure


def _panel(panel: Axes, three: ThreeModels) -> QuadContourSet:
    """One plane: filled contours of the loss, the three models and their mean."""
    plane, s, t, losses = three.losses(POINTS)
    levels = np.linspace(0, HIGHEST, 17)
    filled = panel.contourf(s, t, np.minimum(losses.T, HIGHEST), levels=levels, cmap="viridis_r")
    mean = plane.coordinates(three.vectors().mean(0))
    panel.plot(*plane.corners.T, "o", color="white", markeredgecolor="black", label="models")
    panel.plot(*mean, "*", color="red", markeredgecolor="black", markersize=14, label="their mean")
    panel.set_xlabel("distance from the first model towards the second")
    panel.set_ylabel("distance across")
    panel.set_aspect("equal")
    return filled


MINIATURE = Miniature(
    name="plane",
    question="What does the loss look like in the plane of three models, and where is their mean?",
    source="FedGuCci, Figure 3, and IMA, Figure 1 (pictures only)",
    scale={
        **IMAGES,
        "model": ("CNNs, ResNet20", "MLP 64-64-64-10"),
        "clients": ("100, 2 classes each", "20, 2 classes each"),
        "rounds": ("early, middle, last of 400", "2 and 40"),
    },
    settings=(
        Setting("alone", {**ALONE, "beta": 0.0}),
        Setting(
            "connected to an anchor, beta 3",
            {**ALONE, "beta": 3.0},
            "alone",
            claim={"accuracy of the mean": "higher", "rise": "lower"},
        ),
        Setting("clients after 2 rounds", {**CLIENTS, "rounds": 2}),
        Setting("clients after 40 rounds", {**CLIENTS, "rounds": 40}, "clients after 2 rounds"),
    ),
    quantities=(
        Quantity("accuracy", "%, mean of the three, test"),
        Quantity("accuracy of the mean", "%, of the model in the middle, test"),
        Quantity("mean less the best", "% points, of the mean above the best of the three"),
        Quantity("rise", "nats, largest loss in the triangle above the largest at its corners"),
    ),
    measure=measure,
    quick={"samples": 200, "test": 100},
    draw=draw,
    picture="docs/plane.png",
    no_paper="FedGuCci states neither the epochs nor the rate and the batch of these models",
)
