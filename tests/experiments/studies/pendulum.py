"""A study such as a user writes, for tests: with which power of its length does the period of a pendulum grow?

A cell of a study is the measurement at one point of its grid. Environment variables change how cells are measured.
PENDULUM_SECONDS is the number of seconds that each cell waits. TRAP names a file that says how cells of length 3 fail.
HOLD names a file, and cells of length 4 wait while this file exists. LOG names a file to which each measured point is
written.
"""

import math
import os
import signal
import time
from pathlib import Path

from experiments.studies.answers import interval
from experiments.studies.study import Axis, Quantity, Study, seeds
from ntkfl.estimate import Estimate

SLOWLY = float(os.environ.get("PENDULUM_SECONDS", "0"))


def measure(point):
    """Returns the period for small swings, disturbed by the seed, and positions during half a period."""
    if "LOG" in os.environ:
        with open(os.environ["LOG"], "a") as log:
            log.write(f"{sorted(point.items())}\n")
    spring_trap(point)
    time.sleep(SLOWLY)
    while point["length"] == 4.0 and "HOLD" in os.environ and os.path.exists(os.environ["HOLD"]):
        time.sleep(0.01)
    period = 2 * math.pi * math.sqrt(point["length"] / point["gravity"])
    noise = math.sin(1000 * point["seed"] + point["length"]) * 1e-3
    return {
        "period": Estimate(period * (1 + noise), 1e-3 * period),
        "place": [math.cos(math.pi * k / 4) for k in range(5)],
    }


def spring_trap(point):
    """Does what the trap's file says, if the file exists: fail, die, or die only at the first time."""
    trap = Path(os.environ.get("TRAP", "/nonexistent"))
    if point["length"] != 3.0 or not trap.exists():
        return
    try:
        says = trap.read_text()
        if says == "die once":
            trap.unlink()
    except FileNotFoundError:  # Another worker has removed the trap meanwhile.
        return
    if says == "fail":
        raise ArithmeticError("the string of length 3 has snapped")
    if says == "interrupt":
        raise KeyboardInterrupt
    os.kill(os.getpid(), signal.SIGKILL)


def summarise(cells):
    """Yields the exponent of the length, computed from the two ends of the axis."""
    mean = cells["period"].mean(["gravity", "seed"])
    slope = float(math.log(mean[-1] / mean[0]) / math.log(cells["length"][-1] / cells["length"][0]))
    yield interval("period ~ length^(1/2)", "Galilei 1638", 0.5, Estimate(slope, 0.01, "by hand"))


STUDY = Study(
    name="pendulum",
    question="With which power of its length does the period of a pendulum grow?",
    source="Galilei 1638, First Day",
    axes=(
        Axis("gravity", (9.81, 1.62), "free fall", "m/s^2"),
        Axis("length", (1.0, 2.0, 3.0, 4.0), "of the string", "m", option="lengths"),
        seeds(2, "of the disturbance"),
    ),
    inner=(Axis("k", tuple(range(5)), "quarter of a half period"),),
    quantities=(
        Quantity("period", "of one swing", "s"),
        Quantity("place", "of the bob, over its amplitude", along=("k",)),
    ),
    measure=measure,
    summarise=summarise,
    seconds=lambda point: max(SLOWLY, 0.001),
)
