"""Image limits: where does federated training of wide networks on images leave its infinitely wide limit?

A cell compares one network with ten readouts, trained on Fashion-MNIST by the engine, with the limit of its method,
computed by tiles of the Gram matrix. The network's outputs before training are added to the labels and subtracted from
its outputs: network and limit both start from 0.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import combinations, islice

import numpy as np

from bounds import Outcome
from experiments.studies.answers import power_law, untested
from experiments.studies.chart import Chart, Label
from experiments.studies.random_seed import own_seed
from experiments.studies.series import width_panels
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from ntkfl import data, kernel_regime
from ntkfl.estimate import Estimate
from ntkfl.exact_dynamics import MatrixFreeRegime
from ntkfl.problem import Problem, Setup

SAMPLES, TESTED, CLIENTS, PARTITION = 2000, 2000, 20, "dirichlet:0.3"
SETUP = Setup(local_steps=2, rounds=4)
APART = 0.01  # least difference of two limits in test accuracy at which their order counts
SHARE = 1.0  # the clients' step, as a share of 1 / max_c |H_cc|
METHODS = {"fedavg": {}, "fedavgm": {"momentum": 0.9}, "scaffold": {}}
SOURCE = "docs/proofs/linear_methods.md#rounds-without-a-matrix"
QUANTITIES = {
    "outputs": "max_t |y_m(t) - y_inf(t)| / |y|",
    "accuracy": "test accuracy after the last round",
    "ahead": "test accuracy after the last round less that of the limit",
    "residual": "|r(T)| / |y| less that of the limit",
}


@cache
def problem() -> Problem:
    """The images of every cell."""
    return data.fashion_mnist(SAMPLES, target="one-hot", clients=CLIENTS, partition=PARTITION, test=TESTED)


@cache
def limit(method: str) -> MatrixFreeRegime:
    """The exact limit of a method on these images, from outputs 0."""
    regime = kernel_regime(problem(), Setup(eta_local=1e-9), matrix_free="float64")
    step = SHARE * regime.step_limits.eta_local / 2
    return kernel_regime(
        problem(), replace(SETUP, eta_local=step), None, method, METHODS[method], matrix_free="float64"
    )


@cache
def curves(method: str) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of the limit in every round, and its predictions of the test images after the last."""
    regime, x_test = limit(method), problem().x_test
    assert x_test is not None
    return regime.outputs(np.arange(SETUP.rounds + 1)), regime.predict(x_test, SETUP.rounds)


def right(outputs: np.ndarray) -> float:
    """The share of test images whose largest output is that of their class."""
    labels = problem().y_test
    assert labels is not None
    return float((outputs.argmax(axis=1) == labels.argmax(axis=1)).mean())


def measure(point: Point) -> Measured:
    """How far one trained network is off the limit of its method: outputs, residual, test accuracy."""
    import torch  # slow to load

    from ntkfl.training.methods import build
    from ntkfl.training.model import Model
    from ntkfl.training.objectives import HalfSquares
    from ntkfl.training.wide_training import network_federation

    name, width = point["method"], point["width"]
    images, x_test = problem(), torch.tensor(problem().x_test)
    rng = np.random.default_rng(own_seed(point[SEED], width, name))
    hidden = torch.tensor(rng.standard_normal((width, images.d)))
    readout = torch.tensor(rng.choice([-1.0, 1.0], (width, images.y.shape[1])) / np.sqrt(width))
    network = Model(
        f"ntk:{width}, {images.y.shape[1]} readouts",
        lambda seed: {"moved": torch.zeros_like(hidden)},
        lambda params, x: torch.relu(x @ (hidden + params["moved"]).T),
        lambda params, z: z @ readout,
    )
    start, begun = (network.outputs(network.initial(0), x).numpy() for x in (torch.tensor(images.x), x_test))
    method = build(name, HalfSquares("sum"), **METHODS[name])
    run = network_federation(replace(images, y=images.y + start), limit(name).setup, network, method=method)
    states = list(islice(run.states(), SETUP.rounds + 1))
    outputs = np.array([network.outputs(state.model, run.data.x).numpy() for state in states]) - start
    known, predicted = curves(name)
    size = np.linalg.norm(images.y)
    accuracy = right(network.outputs(states[-1].model, x_test).numpy() - begun)
    left, exact = (np.linalg.norm(images.y - curve[-1]) / size for curve in (outputs, known))
    return {
        "outputs": float(np.linalg.norm(outputs - known, axis=(1, 2)).max() / size),
        "accuracy": accuracy,
        "ahead": accuracy - right(predicted),
        "residual": float(left - exact),
    }


def summarise(cells: Cells) -> Iterable[Answer]:
    """The power with which outputs approach the limit, and whether networks rank the methods as the limit does."""
    methods = [str(method) for method in cells.method.to_numpy()]
    for method in methods:
        claim, values = f"{QUANTITIES['outputs']} ~ m^(-1/2) under {method}", cells["outputs"].sel({"method": method})
        yield power_law(claim, SOURCE, -0.5, values, "width", biased=False)
    claim = f"networks rank the methods by test accuracy as the limit does, where it has them {APART:.0%} apart"
    same = []
    for first, other in combinations(methods, 2):
        pair = [cells.sel({"method": method}) for method in (first, other)]
        trained = (pair[0]["accuracy"] - pair[1]["accuracy"]).to_numpy()
        exact = trained - (pair[0]["ahead"] - pair[1]["ahead"]).to_numpy()
        there = np.isfinite(trained) & (np.abs(exact) >= APART)
        same += (trained[there] * exact[there] > 0).tolist()
    if not same:
        yield untested(claim, SOURCE, 1.0, "no pair of trained networks")
        return
    outcome = Outcome.HOLDS if all(same) else Outcome.UNRESOLVED
    note = f"{sum(same)} of {len(same)} pairs of networks of one width and seed"
    yield Answer(claim, SOURCE, 1.0, Estimate.exact(float(np.mean(same))), outcome, note)


def charts(cells: Cells) -> Iterable[Chart]:
    """Distance of the outputs and lead in test accuracy against the width."""
    methods = [str(method) for method in cells.method.to_numpy()]
    outputs = Label("off the limit", log=True)
    panels = width_panels("outputs", outputs, cells["outputs"], "method", methods, {-0.5: "m^(-1/2)"})
    panels += width_panels("test accuracy", Label("distance from the limit's"), cells["ahead"], "method", methods, {})
    yield Chart(
        "image-limits",
        f"Networks trained on {SAMPLES} images of Fashion-MNIST against the exact limit of their method: "
        f"{QUANTITIES['outputs']}, and {QUANTITIES['ahead']} on {TESTED} others. {CLIENTS} clients, "
        f"{PARTITION}, K = {SETUP.local_steps}, T = {SETUP.rounds}, eta_local = {SHARE:g} / max_c |H_cc|; "
        f"{cells.sizes[SEED]} seeds.",
        "Against the width: outputs approach the limit, and the difference in test accuracy shrinks.",
        tuple(panels),
    )


STUDY = Study(
    name="image-limits",
    question="Where does federated training of wide networks on images leave its infinitely wide limit?",
    source=SOURCE,
    axes=(
        Axis("method", tuple(METHODS), "momentum .9 for fedavgm", option="methods"),
        Axis("width", tuple(2**k for k in range(8, 13)), "hidden neurons m", option="widths", least=1),
        seeds(4, "of the initial network"),
    ),
    quantities=tuple(Quantity(name, says) for name, says in QUANTITIES.items()),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 4 + 6e-3 * point["width"],
    megabytes=lambda point: 900 + 0.3 * point["width"],
)
