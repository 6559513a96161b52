"""Drift: how much farther does a client move if FedGuCci's connectivity loss ties it to the model from which it starts?

In the kernel regime the answer follows from statement fedgucci/X4, by which FedGuCci is FedAvg with rescaled steps. The
study compares this answer with finite networks. Gradient descent trains each network on its loss plus beta times the
connectivity loss, without use of X4.
"""

from collections.abc import Iterable
from functools import cache

import numpy as np

from experiments.studies.answers import equal, power_law, upper
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.random_seed import own_seed
from experiments.studies.series import BARS, WIDTHS, line, points, power_line
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Numbers, Point, Quantity, Study, seeds
from ntkfl import Problem, Setup, Weights, data, kernel_regime
from ntkfl.connectivity.kernel_regime_fedgucci import equivalent_setup, overshoot
from ntkfl.initialisation import draw

N_SAMPLES, FEATURES, CLIENTS, ETA = 6, 8, 3, 0.4
# This rule of Gauss is exact for quadratic functions of alpha; between kinks the integrand is quadratic.
ALPHA, SHARES = (part / 2 for part in np.polynomial.legendre.leggauss(3))
ALPHA = ALPHA + 0.5
ROUNDING = 1e-9  # a generous bound on the relative rounding error of a ratio of distances
SOURCE = "fedgucci/X4-drift"
CHECK = "checks the code: the anchor is where the step begins, so that it is so by the definition"


@cache
def problem() -> Problem:
    """The data of every cell, with the initial residual as labels."""
    return data.sphere(N_SAMPLES, FEATURES, seed=0, clients=CLIENTS, labels="uniform")


def measure(point: Point) -> Measured:
    """The ratio of the distances |w_c - w_0| with and without the connectivity loss, for each client.

    The ratio is measured in the limit and in a network.
    """
    beta, width = point["beta"], point["width"]
    setup = Setup(width=width, eta_local=ETA, local_steps=point["local_steps"], rounds=1)
    weights = draw(width, FEATURES, own_seed(point[SEED], width, bits=32))
    limit, network = [], []
    for own in problem().members:
        alone = Problem(problem().x[own], problem().y[own])
        connected, free = (kernel_regime(alone, steps).movement(1) for steps in (equivalent_setup(setup, beta), setup))
        limit.append(float(connected / free))
        network.append(client_move(alone, setup, weights, beta) / client_move(alone, setup, weights, 0.0))
    return {"limit": limit, "network": network}


def client_move(client: Problem, setup: Setup, weights: Weights, beta: float) -> float:
    """The distance |w - w_0| that a client moves in its local steps.

    The loss is half the client's sum of squares plus beta times the connectivity loss to w_0.

    The labels are the outputs at w_0 plus the client's y. The integral over alpha in the connectivity loss is computed
    by Gauss's rule.
    """
    start, signs = weights.hidden, weights.signs / np.sqrt(setup.width)
    labels = np.maximum(client.x @ start.T, 0) @ signs + client.y

    def gradient(w: np.ndarray) -> np.ndarray:
        z = client.x @ w.T
        return ((z >= 0) * (np.maximum(z, 0) @ signs - labels)[:, None] * signs).T @ client.x

    w = start
    for _ in range(setup.local_steps):
        pull = sum(
            share * alpha * gradient(alpha * w + (1 - alpha) * start)
            for alpha, share in zip(ALPHA, SHARES, strict=True)
        )
        w = w - setup.eta_local * (gradient(w) + beta * pull)
    return float(np.linalg.norm(w - start))


def summarise(cells: Cells) -> Iterable[Answer]:
    """The two bounds in the kernel regime, the exact ratio after one step, and how networks approach the limit."""
    limit, beta = cells.limit.transpose("beta", ...), cells.beta.to_numpy().astype(float)
    shape = (-1, *[1] * (limit.ndim - 1))
    most, least = (1 + beta / 2).reshape(shape), np.array([1 + overshoot(b) for b in beta]).reshape(shape)
    yield upper("drift in the kernel regime <= 1 + beta/2", SOURCE, limit, most, ROUNDING)
    yield upper("drift in the kernel regime >= 1 + beta/(6 + 2 beta)", SOURCE, least, limit, 0.0, ROUNDING)
    if 1 in cells.local_steps.to_numpy():
        first = cells.network.sel(local_steps=1).transpose("beta", ...).to_numpy()
        exact = (1 + beta / 2).reshape(-1, *[1] * (first.ndim - 1))
        claim = "one local step: drift = 1 + beta/2 in every network"
        yield equal(claim, SOURCE, first - exact, ROUNDING, 1.0, note=CHECK)
    claim = "drift of the network, over that of the kernel regime, less 1 ~ m^(-1/2)"
    source = "docs/proofs/connectivity.md#fedgucci-in-the-kernel-regime, fl-ntk/W-gram"
    yield power_law(claim, source, -0.5, off_limit(cells), "width", biased=False)


def off_limit(cells: Cells) -> Numbers:
    """The relative distance from the kernel regime after several local steps, (width, seed).

    The root mean square is taken over clients, beta and K. So each network (a width and a seed) is one sample.
    """
    off = (cells.network / cells.limit - 1).where(cells.local_steps > 1)
    return (off**2).mean(["beta", "local_steps", "client"]) ** 0.5


def charts(cells: Cells) -> Iterable[Chart]:
    """The drift against the number of local steps for each beta.

    A second panel shows the drift's distance from the kernel regime against the width.
    """
    widest, series = int(cells.width.max()), list[Series]()
    for beta in cells.beta.to_numpy():
        at, name = (cells.sel(beta=beta, width=widest) ** 2).mean("client") ** 0.5, f"network, beta = {beta:g}"
        series += [points(name, at.network, "local_steps"), line("kernel regime", at.limit, "local_steps", of=name)]
    approach = points("networks", off_limit(cells), "width")
    theory = power_line(-0.5, approach.x, approach.y[-1], name="m^(-1/2)", of="networks")
    ratio, off = Label("|w_c - w_0|, ratio"), Label("|drift / limit - 1|, RMS", log=True)
    yield Chart(
        "drift",
        f"Left: how much farther clients go with the connectivity loss, width {widest}; right: the relative "
        f"distance of networks from the kernel regime. n = {N_SAMPLES}, d = {FEATURES}, {CLIENTS} clients, "
        f"eta_local = {ETA:g}; {cells.sizes[SEED]} seeds; {BARS}.",
        "Drift falls with the local steps from 1 + beta/2 towards 1 + beta/(6 + 2 beta), as the limit says.",
        (
            Panel("distance with the loss / without it", Label("local steps K", log=True), ratio, tuple(series)),
            Panel("approach to the kernel regime", WIDTHS, off, (approach, theory)),
        ),
    )


STUDY = Study(
    name="drift",
    question="How much farther does a client go when FedGuCci keeps it connected to the model that it starts from?",
    source="FedGuCci, Eq (12); docs/proofs/connectivity.md#fedgucci-in-the-kernel-regime",
    axes=(
        Axis("beta", (0.5, 1.0, 3.0), "weight of the connectivity loss", least=0),
        Axis("local_steps", (1, 4, 16), "local steps K", least=1),
        Axis("width", (128, 256, 512, 1024, 2048, 4096), "hidden neurons m", option="widths", least=1),
        seeds(20, "of the network"),
    ),
    inner=(Axis("client", tuple(range(CLIENTS)), "client"),),
    quantities=(
        Quantity("limit", "ratio of |w_c - w_0| with and without connectivity loss, kernel regime", along=("client",)),
        Quantity("network", "ratio of |w_c - w_0| with and without connectivity loss, a network", along=("client",)),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.03 + 1.5e-6 * point["local_steps"] * point["width"],
    megabytes=lambda point: 350 + 0.0004 * point["width"],
)
