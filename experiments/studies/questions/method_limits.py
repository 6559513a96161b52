"""Method limits: with which power of the width do networks approach the exact limit of each federated method?

A cell trains a network with the training engine, by a method that is linear in the weights, and computes the limit of
that method at infinite width. The labels are the network's outputs before training plus a fixed vector r_0, y_m(0) +
r_0. So all cells start with the same residual, and only the width varies. No two cells share neurons.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import islice

import numpy as np

from bounds.fl_ntk.cases.method_ladder import variants
from experiments.studies.answers import power_law
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.random_seed import own_seed
from experiments.studies.series import BARS, measured_numbers, numbers_panel, width_panels
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from experiments.studies.study_data import DATA, data_of, on_data
from ntkfl import Problem, Setup, data, interruption
from ntkfl.exact_dynamics import LinearRegime
from ntkfl.initialisation import draw

SETUP = Setup(eta_local=0.4, local_steps=3, rounds=30)
SPHERE, SIZES, FEATURES, TEST_POINTS = "sphere", (4, 5, 7), 8, 20
RATE = 1.2  # the server's rate, for methods that have one
METHODS = tuple(variants(RATE, len(SIZES)))
SOURCE = "fl-ntk/method-widths; docs/proofs/linear_methods.md#state-maps"
QUANTITIES = {
    "outputs": "max_t |y_m(t) - y_inf(t)| / |r_0|",
    "prediction": "RMS over test points of f(x, T) less its limit",
}
NOTE = "the interval includes the change of the slope if the two smallest widths are left out"


@cache
def problem(name: str = SPHERE) -> Problem:
    """The data of every cell, with r_0 as labels.

    By default they are on the sphere, with clients of unequal sizes.
    """
    if name != SPHERE:
        return data_of(name, 0)
    whole = data.sphere(sum(SIZES), FEATURES, seed=0, clients=1, labels="uniform")
    return Problem(whole.x, whole.y, np.repeat(np.arange(len(SIZES)), SIZES))


@cache
def limit(method: str, name: str = SPHERE) -> LinearRegime:
    """The exact infinite-width limit of a method on these data, from outputs 0 and with labels r_0.

    The local step is halved until the method is stable.
    """
    clients, setup = problem(name).n_clients, SETUP
    while not (regime := variants(RATE, clients)[method].regime(problem(name), setup)).stable:
        interruption.check()
        setup = replace(setup, eta_local=setup.eta_local / 2)
    assert isinstance(regime, LinearRegime), "every variant has options"
    return regime


def measure(point: Point) -> Measured:
    """Two distances of a trained network from the limit: of its outputs in all rounds, and of its last predictions."""
    import torch  # imported here, since it is slow to load

    name, width, given = point["method"], point["width"], problem(point[DATA])
    exact = limit(name, point[DATA])
    weights = draw(width, given.d, own_seed(point[SEED], width, name))
    variant, start = variants(RATE, given.n_clients)[name], weights.outputs(given.x)
    run = variant.federation(replace(given, y=start + given.y), replace(exact.setup, width=width), weights)
    models = [state.model for state in islice(run.states(), SETUP.rounds + 1)]
    outputs = np.array([run.model.outputs(model, run.data.x).numpy() for model in models])
    # the outputs of the limit start from 0, so its initial residual is y
    moved = exact.outputs(np.arange(SETUP.rounds + 1))
    x = np.random.default_rng(1).normal(size=(TEST_POINTS, given.d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    trained = run.model.outputs(models[-1], torch.tensor(x)).numpy() - weights.outputs(x)
    off = np.linalg.norm(outputs - start - moved, axis=1).max() / np.linalg.norm(given.y)
    return {
        "outputs": float(off),
        "prediction": float(np.sqrt(((trained - exact.predict(x, SETUP.rounds)) ** 2).mean())),
    }


def summarise(cells: Cells) -> Iterable[Answer]:
    """The powers of the width of both quantities under every method."""
    for name, says in QUANTITIES.items():
        for method in cells.method.to_numpy():
            # a dictionary, since `sel(method=...)` would set an option of `sel` and not name the axis
            claim, values = f"{says} ~ m^(-1/2) under {method}", cells[name].sel({"method": method})
            yield power_law(claim, SOURCE, -0.5, values, "width", biased=False, note=NOTE)


def charts(cells: Cells) -> Iterable[Chart]:
    """The two quantities against the width, with six methods in each panel, and the measured powers."""
    methods = [str(method) for method in cells.method.to_numpy()]
    panels: list[Panel] = []
    for name in QUANTITIES:
        y = Label(f"{name}: off the limit", log=True)
        panels += width_panels(name, y, cells[name], "method", methods, {-0.5: "m^(-1/2)"})
    yield Chart(
        "method-limits",
        f"Networks trained by the engine against the exact limit of their method: {QUANTITIES['outputs']}, and "
        f"{QUANTITIES['prediction']}. K = {SETUP.local_steps}, T = {SETUP.rounds}; "
        f"{cells.sizes[SEED]} seeds, none of whose networks share neurons; {BARS}.",
        "Log-log plots: under every method the distance from its limit falls with the width along m^(-1/2).",
        tuple(panels),
    )
    slopes = [answer.measured for answer in summarise(cells)]
    at = [float(place) for place in range(len(methods))]
    series = [
        measured_numbers(name, at, slopes[row * len(methods) : (row + 1) * len(methods)])
        for row, name in enumerate(QUANTITIES)
    ]
    theory = Series("theory", "theory", at, [-0.5] * len(at))
    yield Chart(
        "method-exponents",
        "The power of the width with which networks approach the limit of each method, over "
        f"{cells.sizes['width']} widths; bars: 99% intervals, which include the bias of the two smallest.",
        "Measured exponents with their intervals beside -1/2, one method in each line.",
        (numbers_panel("exponents", methods, (*series, theory)),),
    )


ON_SPHERE = Study(
    name="method-limits",
    question="With which power of the width do networks approach the exact limit of each federated method?",
    source=SOURCE,
    axes=(
        Axis("method", METHODS, "with its options, as in fl-ntk/method-widths", option="methods"),
        Axis("width", tuple(2**k for k in range(8, 15)), "hidden neurons m", option="widths", least=1),
        seeds(10, "of the initial network"),
    ),
    quantities=tuple(Quantity(name, says) for name, says in QUANTITIES.items()),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.2 + 7e-5 * point["width"],
    megabytes=lambda point: 550 + 0.01 * point["width"],
)
STUDY = on_data(
    ON_SPHERE,
    SPHERE,
    f"n = {sum(SIZES)}, d = {FEATURES}, {len(SIZES)} clients of unequal sizes, eta_local = {SETUP.eta_local:g}",
)
