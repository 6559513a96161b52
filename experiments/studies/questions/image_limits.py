"""Image limits: where does federated training of wide networks on images depart from its infinitely wide limit?

A cell trains a network with ten readouts on Fashion-MNIST, and compares it in every reported round with the limit of
its method at infinite width. The limit is computed by tiles of the Gram matrix. The cell also trains the network's
linearisation in the weights, at the initial weights. The linearisation differs from the limit because the network's
initial kernel differs from the kernel of infinite width. The network differs from its linearisation because its kernel
changes in training. The network's outputs before training are added to the labels and subtracted from the outputs, so
that all three start from 0.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np

from bounds import Outcome
from experiments.studies.answers import power_law, untested
from experiments.studies.chart import Chart, Label, Panel
from experiments.studies.random_seed import own_seed
from experiments.studies.series import line, mean, points, width_panels
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from ntkfl import Estimate, Problem, Setup, data, interruption
from ntkfl.exact_dynamics import base_regime, of_method
from ntkfl.gram.tiles import tiles_bytes

PARTITION, A_CLIENT, MOST_CLIENTS, MOST_TESTED = "dirichlet:0.3", 100, 100, 10_000
SETUP = Setup(local_steps=5)
ROUNDS = (1, 2, 3, 5, 7, 10, 15, 22, 32)
IN_FLOAT64 = 20_000  # the largest number of images for which the limit's tiles are in float64
AT_ONCE = 2**24  # number of values of hidden neurons in memory at once; they take 128 MiB
APART = 0.01  # two methods are compared if the test accuracies of their limits differ by at least APART
METHODS = {"fedavg": {}, "fedavgm": {"momentum": 0.9}, "scaffold": {}}
SOURCE = "docs/proofs/linear_methods.md#rounds-without-a-matrix"
QUANTITIES = {
    "outputs": "|y_m(t) - y_inf(t)| / |y|",
    "linear": "|y_lin(t) - y_inf(t)| / |y|, y_lin of the linearisation",
    "bent": "|y_m(t) - y_lin(t)| / |y|",
    "moved": "|y_inf(t)| / |y|, how far the limit has gone",
    "accuracy": "test accuracy of the network",
    "accuracy_linear": "test accuracy of its linearisation",
    "accuracy_limit": "test accuracy of the limit",
    "residual": "|r(t)| / |y| of the network",
    "residual_limit": "|r(t)| / |y| of the limit",
}


@cache
def problem(images: int) -> Problem:
    """The data with `images` training images, and as many test images but at most 10,000."""
    clients, tested = min(images // A_CLIENT, MOST_CLIENTS), min(images, MOST_TESTED)
    return data.fashion_mnist(images, target="one-hot", clients=clients, partition=PARTITION, test=tested)


def tiles(images: int) -> str:
    """The dtype of the limit's tiles."""
    return "float64" if images <= IN_FLOAT64 else "float32"


@dataclass(frozen=True)
class Limit:
    """The limit of a method: the clients' step size, and the outputs in the reported rounds.

    `outputs` are on the training images, and `tested` on the test images.
    """

    eta_local: float
    outputs: np.ndarray  # (rounds, n, C)
    tested: np.ndarray  # (rounds, n_test, C)


@cache
def limit(method: str, images: int, step: float, rounds: tuple[int, ...], memmap: Path | None = None) -> Limit:
    """The exact limit of a method on these images, from outputs 0.

    `step` is the clients' step size as a share of 1 / max_c |H_cc|.
    """
    given = problem(images)
    base = base_regime(given, SETUP, None, tiles(images), memmap=memmap)
    eta_local = step / float(base.blocks.clients.values.max())
    regime = of_method(base.at(replace(SETUP, eta_local=eta_local)), method, METHODS[method])
    assert given.x_test is not None
    return Limit(eta_local, *regime.outputs_and_predictions(given.x_test, np.array(rounds)))


def drawn_network(width: int, seed: int, images: Problem, dtype: str = "float64") -> tuple[np.ndarray, np.ndarray]:
    """Hidden weights, (m, d), and readouts of +-1 / sqrt(m), (m, C), which are not trained."""
    rng = np.random.default_rng(own_seed(seed, width, STUDY.name))
    hidden = rng.standard_normal((width, images.d))
    readout = rng.choice([-1.0, 1.0], (width, images.y.shape[1])) / np.sqrt(width)
    return hidden.astype(dtype), readout.astype(dtype)


@dataclass(frozen=True)
class Begun:
    """Some samples, with the network's outputs on them before training and, for a linearisation, the active neurons."""

    x: np.ndarray
    outputs: np.ndarray  # (n, C)
    active: np.ndarray | None  # (n, m); None: the network itself is trained

    @classmethod
    def of(cls, x: np.ndarray, hidden: np.ndarray, readout: np.ndarray, linear: bool) -> "Begun":
        before = x @ hidden.T
        return cls(x, np.maximum(before, 0) @ readout, before >= 0 if linear else None)

    def later(self, z: np.ndarray, readout: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The active neurons at the pre-activations `z`, and the change of the outputs since before training."""
        active = z >= 0 if self.active is None else self.active
        return active, (active * z) @ readout - self.outputs


def displacements(point: Point, images: Problem, begun: Sequence[Begun], eta_local: float) -> Iterator[np.ndarray]:
    """The change of the hidden weights since before training, (m, d), after 0, 1, ... rounds.

    Up to rounding, the training engine reaches the same weights.

    The steps of a client change its weights by linear combinations of its samples. So its pre-activations z, (n_c, m),
    change by products with the matrix x x' of its samples. A step then takes n_c^2 m operations in place of 2 n_c d m,
    and does not touch the weights.
    """
    dtype = begun[0].x.dtype.name
    hidden, readout = drawn_network(point["width"], point[SEED], images, dtype)
    scaffold, steps = point["method"] == "scaffold", SETUP.local_steps
    momentum = METHODS[point["method"]].get("momentum", 0.0)
    labels, controls = [images.y[own].astype(dtype) for own in images.members], [np.zeros(0)] * len(begun)
    moved, velocity, control = np.zeros((3, *hidden.shape), dtype)
    while True:
        interruption.check()
        yield moved
        weights, mean, controlled = hidden + moved, np.zeros_like(moved), np.zeros_like(moved)
        for number, (own, y) in enumerate(zip(begun, labels, strict=True)):
            x, gram, z = own.x, own.x @ own.x.T, own.x @ weights.T
            before = controls[number]  # SCAFFOLD's variate of the client is c_i = -before' x, where ' is the transpose
            drift = x @ control.T - (gram @ before if before.size else 0.0) if scaffold else 0.0
            turns = np.zeros_like(z)
            for _ in range(steps):
                active, outputs = own.later(z, readout)
                turn = active * ((y - outputs) @ readout.T)
                turns += turn
                z += eta_local * (gram @ turn + drift)
            share = eta_local * (1 / len(begun) if scaffold else len(x) / images.n)
            mean += share * (turns.T @ x)
            if scaffold:  # the drifts sum to 0, since the server's variate is the mean of the clients' variates
                controls[number] = turns / steps
                controlled += controls[number].T @ x / len(begun)
        control, velocity = controlled, momentum * velocity + mean
        moved = moved + velocity


def trained(
    point: Point, eta_local: float, rounds: tuple[int, ...], linear: bool, dtype: str = "float64"
) -> Iterator[tuple[np.ndarray, ...]]:
    """The change of the outputs on training and on test images, from before training to each of these rounds."""
    images = problem(point["images"])
    hidden, readout = drawn_network(point["width"], point[SEED], images, dtype)
    clients = [Begun.of(images.x[own].astype(dtype), hidden, readout, linear) for own in images.members]
    assert images.x_test is not None
    parts = np.array_split(images.x_test.astype(dtype), -(-len(images.x_test) * len(hidden) // AT_ONCE))
    tested, order = [Begun.of(x, hidden, readout, linear) for x in parts], np.argsort(np.concatenate(images.members))
    for t, moved in zip(range(max(rounds) + 1), displacements(point, images, clients, eta_local), strict=False):
        if t in rounds:
            weights = (hidden + moved).T
            now, then = ([own.later(own.x @ weights, readout)[1] for own in some] for some in (clients, tested))
            yield np.concatenate(now)[order], np.concatenate(then)


def compared(
    point: Point, rounds: tuple[int, ...], memmap: Path | None = None, dtype: str = "float64"
) -> Iterator[dict[str, float]]:
    """The quantities of a cell after each of these rounds.

    `memmap` is a file for the tiles of the limit. Network and linearisation are trained in `dtype`.
    """
    images, exact = problem(point["images"]), limit(*(point[of] for of in ("method", "images", "step")), rounds, memmap)
    size = float(np.linalg.norm(images.y))
    runs = (trained(point, exact.eta_local, rounds, linear, dtype) for linear in (False, True))
    for known, predicted, own, linear in zip(exact.outputs, exact.tested, *runs, strict=True):
        distances = [own[0] - known, linear[0] - known, own[0] - linear[0], known]
        shares = [right(tested, images) for tested in (own[1], linear[1], predicted)]
        left = [images.y - own[0], images.y - known]
        far, remaining = ([float(np.linalg.norm(v)) / size for v in some] for some in (distances, left))
        yield dict(zip(QUANTITIES, [*far, *shares, *remaining], strict=True))


def right(outputs: np.ndarray, images: Problem) -> float:
    """The share of test images on which the output of the right class is the largest."""
    assert images.y_test is not None
    return float((outputs.argmax(axis=1) == images.y_test.argmax(axis=1)).mean())


def measure(point: Point) -> Measured:
    """The distances of a network and of its linearisation from the limit of their method, in every reported round."""
    rounds = list(compared(point, ROUNDS))
    return {name: [of[name] for of in rounds] for name in QUANTITIES}


def summarise(cells: Cells) -> Iterable[Answer]:
    """The power with which outputs approach the limit, and whether networks rank the methods as the limit does."""
    methods = [str(method) for method in cells.method.to_numpy()]
    for method in methods:
        claim = f"max_t {QUANTITIES['outputs']} ~ m^(-1/2) under {method}"
        # the mean over numbers of images and step sizes is one number for each width and seed
        far = cells["outputs"].sel({"method": method}).max("round").mean(["images", "step"])
        yield power_law(claim, SOURCE, -0.5, far, "width", biased=False)
    claim = f"networks rank two methods by test accuracy as their limits do, if these differ by {APART:.0%} or more"
    last, same = cells.isel({"round": -1}), []
    for first, other in combinations(methods, 2):
        pair = [last.sel({"method": method}) for method in (first, other)]
        networks, exact = (
            (pair[0][name] - pair[1][name]).to_numpy().ravel() for name in ("accuracy", "accuracy_limit")
        )
        there = np.isfinite(networks) & (np.abs(exact) >= APART)
        same += (networks[there] * exact[there] > 0).tolist()
    if not same:
        yield untested(claim, SOURCE, 1.0, "no pair of trained networks", (SEED,) if len(methods) > 1 else ("method",))
        return
    outcome = Outcome.HOLDS if all(same) else Outcome.UNRESOLVED
    note = f"{sum(same)} of {len(same)} pairs of networks of one width and seed, after the last round"
    # If some network ranks two methods differently from the limits, further networks cannot make the claim hold. So
    # more values of an axis of the grid, such as more seeds, cannot settle this answer.
    yield Answer(claim, SOURCE, 1.0, Estimate.exact(float(np.mean(same))), outcome, note, settled_by=())


def charts(cells: Cells) -> Iterable[Chart]:
    """The distance of the outputs against the width, and the distances against the round at the largest width."""
    methods = [str(method) for method in cells.method.to_numpy()]
    cells = cells.isel(images=0, step=0)
    last, widest = cells.isel({"round": -1}), int(cells.width.max())
    outputs = Label("off the limit, last round", log=True)
    panels = width_panels("outputs", outputs, last["outputs"], "method", methods, {-0.5: "m^(-1/2)"})
    for method in methods:
        own = cells.sel({"method": method, "width": widest})
        off = [points(QUANTITIES[name], own[name], "round") for name in ("outputs", "linear", "bent")]
        panels.append(Panel(method, Label("round", log=True), Label("distance", log=True), tuple(off)))
    every = cells.sel({"width": widest})
    shares = [points(f"{of}, network", every["accuracy"].sel({"method": of}), "round", over=mean) for of in methods]
    shares += [
        line(f"{of}, limit", every["accuracy_limit"].sel({"method": of}), "round", of=f"{of}, network", over=mean)
        for of in methods
    ]
    panels.append(Panel("test accuracy", Label("round", log=True), Label("test accuracy"), tuple(shares)))
    yield Chart(
        "image-limits",
        f"Networks trained on {int(cells.images)} images of Fashion-MNIST against the exact limit of their method: "
        f"{QUANTITIES['outputs']} after the last round; over the rounds with {widest} neurons. {PARTITION}, "
        f"K = {SETUP.local_steps}, eta_local = {float(cells.step):g} / max_c |H_cc|; {cells.sizes[SEED]} seeds.",
        "The wider the networks, the nearer are the outputs to the limit; in later rounds the outputs leave the limit.",
        tuple(panels),
    )


def _seconds(point: Point) -> float:
    """Roughly the processor time of a cell: of the network, its linearisation, the limit and loading the images."""
    return 10 + 4e-7 * max(ROUNDS) * point["images"] * point["width"]


STUDY = Study(
    name="image-limits",
    question="Where does federated training of wide networks on images leave its infinitely wide limit?",
    source=SOURCE,
    axes=(
        Axis("method", tuple(METHODS), "momentum .9 for fedavgm", option="methods"),
        Axis("images", (2000,), "images n; a hundred a client, or more on 100 clients", least=A_CLIENT),
        Axis("step", (1.0,), "clients' step, a share of 1 / max_c |H_cc|", above=0, below=2),
        Axis("width", tuple(2**k for k in range(8, 13)), "hidden neurons m", option="widths", least=1),
        seeds(4, "of the initial network"),
    ),
    inner=(Axis("round", ROUNDS, "rounds that are done"),),
    quantities=tuple(Quantity(name, says, along=("round",)) for name, says in QUANTITIES.items()),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=_seconds,
    megabytes=lambda point: 900 + 0.05 * point["width"] + tiles_bytes(point["images"], tiles(point["images"])) / 1e6,
)
