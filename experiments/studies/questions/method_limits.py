"""Method limits: with which power of the width do networks approach the exact limit of each federated method?

A cell is one network, trained by the engine under one method that is linear in the weights, and the limit of that
method at infinite width. The labels are y_m(0) + r_0 with one fixed r_0, and no two cells share neurons, so that what
is left to vary is the width.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from bounds.fl_ntk.cases.method_ladder import variants
from experiments.studies.answers import along, exponent, samples
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.running.spread import BARS, root_mean_square
from experiments.studies.study import SEED, Answer, Axis, Measured, Point, Quantity, Study
from ntkfl import data
from ntkfl.exact_dynamics import LinearRegime
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup

if TYPE_CHECKING:
    import xarray

SETUP = Setup(eta_local=0.4, local_steps=3, rounds=30)
SIZES, FEATURES, TEST_POINTS = (4, 5, 7), 8, 20
RATE = 1.2  # of the server, where the method has one
METHODS = tuple(variants(RATE, len(SIZES)))
SOURCE = "fl-ntk/method-widths; note on theorems beyond the papers, section A"
QUANTITIES = {
    "outputs": "max_t |y_m(t) - y_inf(t)| / |r_0|",
    "prediction": "RMS over test points of f(x, T) less its limit",
}
IN_PANEL = 6  # methods
NOTE = "the interval holds the change of the slope without the two smallest widths"


@cache
def problem() -> Problem:
    """The data of every cell, clients of unequal sizes; its labels are r_0."""
    whole = data.sphere(sum(SIZES), FEATURES, seed=0, clients=1, labels="uniform")
    return Problem(whole.x, whole.y, np.repeat(np.arange(len(SIZES)), SIZES))


@cache
def limit(method: str) -> LinearRegime:
    """The exact limit of a method on these data, from outputs 0; its labels are r_0."""
    found = variants(RATE, len(SIZES))[method].regime(problem(), SETUP)
    assert isinstance(found, LinearRegime), "every variant has options"
    return found


def measure(point: Point) -> Measured:
    """How far the outputs of one trained network, at any round, and its predictions, at the last, are off the limit."""
    import torch  # slow to load

    name, width = str(point["method"]), int(point["width"])
    entropy = (int(point[SEED]), width, *name.encode())
    weights = draw(width, FEATURES, int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1))
    one, start = variants(RATE, len(SIZES))[name], weights.outputs(problem().x)
    run = one.federation(replace(problem(), y=start + problem().y), replace(SETUP, width=width), weights)
    models = [state.model for state in islice(run.states(), SETUP.rounds + 1)]
    outputs = np.array([run.model.outputs(model, run.data.x).numpy() for model in models])
    moved = limit(name).outputs(np.arange(SETUP.rounds + 1))  # of r_0, from 0
    x = np.random.default_rng(1).normal(size=(TEST_POINTS, FEATURES))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    trained = run.model.outputs(models[-1], torch.tensor(x)).numpy() - weights.outputs(x)
    off = np.linalg.norm(outputs - start - moved, axis=1).max() / np.linalg.norm(problem().y)
    return {
        "outputs": float(off),
        "prediction": float(np.sqrt(((trained - limit(name).predict(x, SETUP.rounds)) ** 2).mean())),
    }


def summarise(cells: xarray.Dataset) -> tuple[Answer, ...]:
    """The exponents of both quantities under every method (`sel` has an argument of its own named method)."""
    widths = cells.width.to_numpy().astype(float)
    return tuple(
        exponent(
            f"{says} ~ m^(-1/2) under {method}",
            SOURCE,
            -0.5,
            widths,
            samples(cells[name].sel({"method": method}), "width"),
            biased=False,
            note=NOTE,
        )
        for name, says in QUANTITIES.items()
        for method in cells.method.to_numpy()
    )


def charts(cells: xarray.Dataset) -> tuple[Chart, ...]:
    """Both quantities against the width, six methods a panel, and the exponents that were found."""
    widths = [float(width) for width in cells.width.to_numpy()]
    methods = [str(method) for method in cells.method.to_numpy()]
    panels = []
    for name in QUANTITIES:
        for some in (methods[first : first + IN_PANEL] for first in range(0, len(methods), IN_PANEL)):
            rows = [(one, root_mean_square(along(cells[name].sel({"method": one}), "width"))) for one in some]
            series = [Series(one, "measured", widths, *columns) for one, columns in rows]
            scale = float(np.mean([one.y[-1] for one in series])) * widths[-1] ** 0.5
            power = Series("m^(-1/2)", "theory", widths, [scale * width**-0.5 for width in widths])
            label = Label(f"{name}: off the limit", log=True)
            panels.append(Panel(name, Label("width m", "neurons", log=True), label, (*series, power)))
    of_runs = Chart(
        "method-limits",
        f"Networks trained by the engine against the exact limit of their method: {QUANTITIES['outputs']}, and "
        f"{QUANTITIES['prediction']}. n = {sum(SIZES)}, d = {FEATURES}, "
        f"{len(SIZES)} clients, K = {SETUP.local_steps}, T = {SETUP.rounds}, eta_local = {SETUP.eta_local:g}; "
        f"{cells.sizes[SEED]} seeds, none of whose networks share neurons; {BARS}.",
        "Log-log plots: under every method the distance from its limit falls with the width along m^(-1/2).",
        tuple(panels),
    )
    return (of_runs, *_exponents(cells))


def _exponents(cells: xarray.Dataset) -> tuple[Chart, ...]:
    methods, answers = tuple(str(method) for method in cells.method.to_numpy()), summarise(cells)
    places = [float(place) for place in range(len(methods))]
    series = []
    for row, name in enumerate(QUANTITIES):
        found = [one.measured for one in answers[row * len(methods) : (row + 1) * len(methods)]]
        value, low, high = (
            [float("nan") if one is None else float(getattr(one, end)) for one in found]
            for end in ("value", "lo", "hi")
        )
        series.append(Series(name, "measured", places, value, low, high))
    theory = Series("theory", "theory", places, [-0.5] * len(places))
    return (
        Chart(
            "method-exponents",
            "The power of the width with which networks approach the limit of each method, over "
            f"{cells.sizes['width']} widths; bars: 99% intervals, which hold the bias of the two smallest.",
            "Measured exponents with their intervals beside -1/2, a method a line.",
            (Panel("exponents", Label("", names=methods), Label("exponent"), (*series, theory), sideways=True),),
        ),
    )


STUDY = Study(
    name="method-limits",
    question="With which power of the width do networks approach the exact limit of each federated method?",
    source=SOURCE,
    axes=(
        Axis("method", METHODS, "with its options, as in fl-ntk/method-widths", option="methods"),
        Axis("width", tuple(2**k for k in range(8, 15)), "hidden neurons m", option="widths", least=1),
        Axis(SEED, tuple(range(10)), "of the initial network", option="seeds"),
    ),
    quantities=tuple(Quantity(name, says) for name, says in QUANTITIES.items()),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.2 + 7e-5 * int(point["width"]),
    megabytes=lambda point: 550 + 0.01 * int(point["width"]),
)
