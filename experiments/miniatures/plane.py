"""What does the loss look like in the plane through three models, and where in it is their mean?

The models are trained alone, or are clients of a federation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from experiments.miniatures.federated import DIGITS, IMAGES
from experiments.miniatures.miniature import Keys, Miniature, Quantity, Setting
from experiments.miniatures.solo_models import Solo
from experiments.studies.drawing import OVER, STYLE
from ntkfl.connectivity.planes import Plane, plane_grid, plane_through
from ntkfl.training import FederatedData, Model
from ntkfl.training.engine.measurement import Score, evaluate
from ntkfl.training.runs.training_run import prepared
from ntkfl.training.tree import Params, tree_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure

EPOCHS = 10
LATE = "clients after 40 rounds"
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
SILO = {"clients": 10, "participation": 1.0}
POINTS = 31  # number of points of the grid along each side of the picture
# The picture has COLUMNS columns and is WIDTH inches wide. It is so narrow that its letters can be read when a phone
# shows the whole picture.
COLUMNS, WIDTH = 2, 4.6
ABOVE = "above the lowest"
HIGHEST = 4.0  # in nats; all higher losses have one colour


@dataclass(frozen=True, eq=False)
class ThreeModels:
    """Three models, which are the rows of `models`, and data with the test samples on which they are evaluated."""

    model: Model
    data: FederatedData
    models: Params

    def vectors(self) -> np.ndarray:
        """The parameters of the three models, (3, S)."""
        return torch.cat([rows.reshape(len(rows), -1) for rows in self.models.values()], 1).double().numpy()

    def score(self, vector: np.ndarray) -> Score:
        """The mean loss and the accuracy of the model with these parameters."""
        params, place = {}, 0
        for name, rows in self.models.items():
            size = rows[0].numel()
            part = torch.as_tensor(vector[place : place + size]).to(rows.dtype)
            params[name], place = part.reshape(rows.shape[1:]), place + size
        x, y = self.data.x_test, self.data.y_test
        assert x is not None and y is not None  # image sets have test samples

        def outputs(some: Tensor) -> Tensor:
            return self.model.outputs(params, some)

        return evaluate(outputs, x, y)

    def corners(self) -> list[Score]:
        """The losses and accuracies of the three models."""
        return [self.score(vector) for vector in self.vectors()]

    def centre(self) -> Score:
        """The loss and the accuracy of the mean of the three models."""
        return self.score(self.vectors().mean(0))

    def rise(self, parts: int = 12) -> float:
        """The largest loss in the triangle of the models, less the largest loss of the three models.

        The loss is computed on a grid that divides each side of the triangle into `parts` parts.
        """
        vectors = self.vectors()
        grid = (np.array([i, j, parts - i - j]) / parts for i in range(parts + 1) for j in range(parts + 1 - i))
        largest = max(self.score(weights @ vectors).loss for weights in grid)
        return largest - max(corner.loss for corner in self.corners())

    def losses(self, points: int) -> tuple[Plane, np.ndarray, np.ndarray, np.ndarray]:
        """The plane, the coordinates s and t of a grid in it, and the mean loss at each point, (points, points)."""
        plane = plane_through(list(self.vectors()))
        s, t = plane.axes(points)
        return plane, s, t, plane_grid(plane, lambda vector: self.score(vector).loss, s, t)


def three_models(keys: Keys, seed: int) -> ThreeModels:
    """Three models trained alone, or the models of the first three clients in the round after `rounds` rounds."""
    if "beta" in keys:
        solo = Solo.of(keys, seed)
        anchor = solo.anchor(keys["epochs"], seed)
        return ThreeModels(solo.model, solo.data, solo.trained(solo.starts(3, seed), anchor, keys["beta"], seed))
    done = prepared("fedavg", **{**keys, "seed": seed}).train()
    ends = done.federation.round(done.state, keep_ends=True).ends
    assert ends is not None  # `keep_ends` demands the models at the ends of the clients' rounds
    return ThreeModels(done.model, done.federation.data, tree_map(lambda rows: rows[:3], ends))


def measure(keys: Keys, seed: int) -> Mapping[str, float]:
    """The accuracies of the three models and of their mean, and the rise of the loss between them."""
    three = three_models(keys, seed)
    alone, centre = 100 * np.array([corner.accuracy for corner in three.corners()]), three.centre()
    *_, losses = three.losses(POINTS)
    return {
        "accuracy": float(alone.mean()),
        "accuracy of the mean": 100 * centre.accuracy,
        "mean less the best": 100 * centre.accuracy - float(alone.max()),
        "rise": three.rise(),
        ABOVE: max(0.0, centre.loss - float(losses.min())),
    }


def draw(quick: Keys) -> Figure:
    """The picture of the planes of all settings, for the first seed."""
    import matplotlib
    from matplotlib.figure import Figure

    rows = -(-len(MINIATURE.settings) // COLUMNS)
    with matplotlib.rc_context(STYLE | {"axes.grid": False}):
        figure = Figure(figsize=(WIDTH, WIDTH / COLUMNS * rows + 0.4), layout="constrained")
        panels = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
        for panel, setting in zip(panels, MINIATURE.settings, strict=True):
            filled = _panel(panel, three_models({**setting.keys, **quick}, 0))
            panel.set_title(setting.name)
        figure.supxlabel("distance from the first model towards the second", fontsize=8)
        figure.supylabel("distance across", fontsize=8)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
        label = f"mean test loss [nats], cut off at {HIGHEST:g}"
        figure.colorbar(filled, ax=panels, location="top", label=label, aspect=40)
    return figure


def _panel(panel: Axes, three: ThreeModels) -> QuadContourSet:
    """Draw one plane: filled contours of the loss, the three models, and their mean."""
    plane, s, t, losses = three.losses(POINTS)
    levels = np.linspace(0, HIGHEST, 9)
    filled = panel.contourf(s, t, np.minimum(losses.T, HIGHEST), levels=levels, cmap="cividis_r")
    filled.set_edgecolor("face")  # otherwise the background would show between the colours
    mean = plane.coordinates(three.vectors().mean(0))
    # a fixed dark colour; black and white would change places on a dark page, while the colours of the map stay
    edge = "#101010"
    panel.plot(*plane.corners.T, "o", color=OVER[0], mec=edge, ms=4, mew=0.6, label="models")
    panel.plot(*mean, "*", color=OVER[1], mec=edge, ms=9, mew=0.6, label="their mean")
    panel.locator_params(nbins=4)
    panel.set_aspect("equal")
    return filled


MINIATURE = Miniature(
    name="plane",
    question="What does the loss look like in the plane of three models, and where is their mean?",
    source="FedGuCci, Figure 3, and IMA, Figures 1 and 8 to 10 (pictures only)",
    scale={
        **IMAGES,
        "model": ("CNNs, ResNet20", "MLP 64-64-64-10"),
        "clients": ("100 or 10, 2 classes each or Dirichlet 0.1", "20 or 10, 2 classes each or Dirichlet 0.1"),
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
        Setting(LATE, {**CLIENTS, "rounds": 40}, "clients after 2 rounds"),
        Setting("10 clients, all of them, after 40", {**CLIENTS, **SILO, "rounds": 40}, LATE),
        Setting("Dirichlet 0.1, after 40", {**CLIENTS, "partition": "dirichlet:0.1", "rounds": 40}, LATE),
    ),
    quantities=(
        Quantity("accuracy", "%, mean of the three, test"),
        Quantity("accuracy of the mean", "%, of the model in the middle, test"),
        Quantity("mean less the best", "% points, of the mean above the best of the three"),
        Quantity("rise", "nats, largest loss in the triangle above the largest at its corners"),
        Quantity(ABOVE, "nats, of the mean above the lowest on a grid of the plane"),
    ),
    measure=measure,
    caveat=(
        "For clients the plane is that of the first three clients of a round. IMA's appendix says that the mean is "
        "nearer to the lowest point if few of many clients take part than if all of 10 do, and that this supports "
        "section 6. Section 6 says the opposite. One of the two is a slip, so no claim is taken from them."
    ),
    quick={"samples": 200, "test": 100},
    draw=draw,
    picture="docs/plane.svg",
    no_paper="FedGuCci states neither the epochs nor the rate and the batch of these models",
)
