"""A study such as a user writes, for tests: with which power of its side does a square's area grow?"""

import numpy as np

from experiments.studies.answers import interval
from experiments.studies.study import Axis, Quantity, Study, seeds
from ntkfl.estimate import Estimate


def measure(point):
    """Returns the area of a square."""
    return {"area": Estimate(point["side"] ** 2, 1e-12)}


def summarise(cells):
    """Yields one answer, the exponent that is computed from the two ends of the axis."""
    areas, sides = cells["area"].mean("seed"), cells["side"]
    slope = float(np.log(areas[-1] / areas[0]) / np.log(sides[-1] / sides[0]))
    yield interval("area ~ side^2", "a test of this project", 2.0, Estimate(slope, 1e-9, "by hand"))


STUDY = Study(
    name="squares",
    question="with which power of its side does a square's area grow?",
    source="a test of this project",
    axes=(Axis("side", (2.0, 4.0), "of the square", "m"), seeds(1, "of nothing")),
    quantities=(Quantity("area", "of the square", "m^2"),),
    measure=measure,
    summarise=summarise,
    seconds=lambda point: 0.001,
)
