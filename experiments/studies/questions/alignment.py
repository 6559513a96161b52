"""Alignment: is there a barrier between two models after the units of one were permuted to fit those of the other?

Pairs of two-layer networks are trained on digits and Fashion-MNIST. There are five kinds of pairs. The two networks of
a pair are trained alone from two starts, or alone from one start, or from two starts with FedGuCci's connectivity loss
to one anchor (a third trained model). Otherwise they are the two clients of FedAvg, or the two clients of FedGuCci,
and each client has images of five classes.

The barriers of the cross-entropy are exact. Each barrier is computed without alignment, after weight matching and after
activation matching. The images are training images, since barriers on test images are less informative. If two models
fit the training images too well, averaging them can lower the loss on test images even where there is a barrier.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from bounds import Outcome
from bounds.ladders.slopes import LEVEL, NoSlope, slope
from experiments.studies.answers import (
    FEWEST_CELLS,
    FEWEST_SIZES,
    at_most,
    errors,
    half_width,
    infinite,
    joined,
    samples,
    untested,
)
from experiments.studies.chart import Chart, Label, Panel
from experiments.studies.series import STUDENT_BARS, mean, points
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from ntkfl.connectivity import TwoLayer, align, loss_barrier
from ntkfl.estimate import Estimate, Rigour
from ntkfl.training.engine.federation import Federation
from ntkfl.training.methods import build
from ntkfl.training.methods.fed_gucci import Anchored
from ntkfl.training.models.two_layer import to_network, to_networks
from ntkfl.training.objectives import CrossEntropy
from ntkfl.training.runs.training_run import prepared
from ntkfl.training.tree import Params

INDEPENDENT, CONNECTED, ONE_START = "independent", "connected", "one-start"
FEDAVG, FEDGUCCI = "fedavg", "fedgucci"
KINDS = (INDEPENDENT, CONNECTED, ONE_START, FEDAVG, FEDGUCCI)
IMAGES, SEEN = 500, 200  # number of images for training, and of images for barriers
ROUND, BETA = 4, 3.0  # ROUND is the number of passes of a client in a round, BETA is FedGuCci's beta
KEYS: dict[str, Any] = {"optimizer": "adam", "rate": 2e-3, "batch_size": 50, "dtype": "float32"}
AFTER = {"barrier": "as they are", "by_weights": "after weight matching", "by_activations": "after activation matching"}
ENTEZARI, GIT, GUCCI = "Entezari et al. 2022, Conjecture 1", "Ainsworth et al. 2023", "FedGuCci, section 4"


def models(point: Point) -> tuple[tuple[TwoLayer, TwoLayer], np.ndarray, np.ndarray]:
    """The two models of a cell, and training images with their classes.

    No two widths or seeds share initial weights.
    """
    kind, passes = point["models"], point["passes"]
    own = np.random.SeedSequence((point[SEED], point["width"])).generate_state(3).tolist()
    federated = kind in (FEDAVG, FEDGUCCI)
    keys = {"clients": 2, "partition": "shards:5", "epochs": ROUND} if federated else {"clients": 1, "epochs": passes}
    run = prepared(
        FEDGUCCI if kind in (CONNECTED, FEDGUCCI) else FEDAVG,
        point["data"],
        f"two-layer:{point['width']}",
        options={"beta": BETA} if kind in (CONNECTED, FEDGUCCI) else {},
        samples=IMAGES,
        seed=own[0],
        **KEYS | keys,
    ).federation
    if federated:
        state = run.start()
        for _ in range(passes // ROUND - 1):
            state = run.round(state).state
        first, second = to_networks(run.round(state, keep_ends=True).ends or {})
    else:
        if kind == CONNECTED:
            plain = replace(run, method=build(FEDAVG, CrossEntropy()))
            run = replace(run, method=replace(run.method, server=Anchored(alone(plain, own[2], own[2]))))
        starts = own[0], own[0 if kind == ONE_START else 1]
        first, second = (to_network(alone(run, start, order)) for start, order in zip(starts, own, strict=False))
    return (first, second), run.data.x[:SEEN].flatten(1).double().numpy(), run.data.y[:SEEN].numpy()


def alone(run: Federation, start: int, order: int) -> Params:
    """The model of a single client at the end of its round."""
    reordered = replace(run, seed=order)
    ends = reordered.round(reordered.start(run.model.initial(start)), keep_ends=True).ends or {}
    return {name: rows[0] for name, rows in ends.items()}


def measure(point: Point) -> Measured:
    """The barriers between the two models, the shares of units that permutations move, and the models' distances.

    The distances are in the weights, before and after weight matching.
    """
    (first, second), x, y = models(point)
    by_weights, by_activations = align(first, second), align(first, second, "activations", x)
    others = {"barrier": second, "by_weights": by_weights.aligned, "by_activations": by_activations.aligned}
    barriers = {name: loss_barrier(first, other, x, y, "cross-entropy").value for name, other in others.items()}
    units = np.arange(len(first.hidden))
    return barriers | {
        "moved": float(np.mean(by_weights.permutation != units)),
        "moved_by_activations": float(np.mean(by_activations.permutation != units)),
        "distance": float(np.sqrt(by_weights.cost_before.value)),
        "aligned_distance": float(np.sqrt(by_weights.cost_after.value)),
    }


def summarise(cells: Cells) -> Iterable[Answer]:
    """Whether barriers fall with the width as conjectured, and which ways or lengths of training lower them."""
    # if only some ways of training were run, the cells of the others are missing
    cells = cells.reindex(models=list(KINDS))
    independent = {
        f"{data}, {passes} passes": cells.sel(data=data, passes=passes, models=INDEPENDENT)
        for data, passes in product(cells.data.to_numpy(), cells.passes.to_numpy())
    }
    for where, at in independent.items():
        yield _falls(at, "by_weights", where)
        yield _falls(at, "by_activations", where)
    for where, at in independent.items():
        yield _weights_first(at, where)
    pairs = (  # `_difference` adds to each claim that it is about the mean difference of the barriers
        ("weight matching lowers barriers, independent models", GIT, INDEPENDENT, "by_weights", INDEPENDENT, "barrier"),
        ("weight matching lowers barriers, models of one start", GIT, ONE_START, "by_weights", ONE_START, "barrier"),
        ("connecting models to one anchor lowers barriers", GUCCI, CONNECTED, "barrier", INDEPENDENT, "barrier"),
        ("weight matching lowers barriers more than an anchor", GUCCI, INDEPENDENT, "by_weights", CONNECTED, "barrier"),
        ("weight matching lowers barriers, connected models", GUCCI, CONNECTED, "by_weights", CONNECTED, "barrier"),
        ("connecting lowers barriers, matched models", GUCCI, CONNECTED, "by_weights", INDEPENDENT, "by_weights"),
        ("FedGuCci has lower barriers than FedAvg's matched clients", GUCCI, FEDGUCCI, "barrier", FEDAVG, "by_weights"),
    )
    for claim, source, kind, name, other, their_name in pairs:
        yield _difference(claim, source, (cells.sel(models=kind), name), (cells.sel(models=other), their_name))
    yield _longer(cells)


def _falls(cells: Cells, name: str, where: str) -> Answer:
    """Whether the barrier falls with the width, which means that it scales like a negative power of the width.

    The conjecture gives no number for this power.
    """
    claim = f"the barrier of independent models falls with the width {AFTER[name]}, {where}: power below 0"
    at_widths = zip(
        cells.width.to_numpy(), samples(cells[name], "width"), samples(errors(cells, name), "width"), strict=True
    )
    measured = [(float(m), barriers, error) for m, barriers, error in at_widths if len(barriers)]
    if any(np.isinf(barriers).any() for _, barriers, _ in measured):
        return infinite(claim, ENTEZARI, None)
    there = [(m, barriers) for m, barriers, error in measured if np.sqrt((barriers**2).mean()) > error.max()]
    note = "" if len(there) == len(measured) else "from some width on no barrier can be told from 0"
    if len(there) < FEWEST_SIZES or sum(len(barriers) for _, barriers in there) < FEWEST_CELLS:
        reason = joined(f"{FEWEST_CELLS} cells at {FEWEST_SIZES} widths or more are needed", note)
        return untested(claim, ENTEZARI, None, reason)

    try:
        power = slope(np.array([m for m, _ in there]), [barriers for _, barriers in there])
    except NoSlope as error:
        return Answer(claim, ENTEZARI, None, None, Outcome.UNRESOLVED, joined(str(error), note))
    return at_most(claim, ENTEZARI, power, 0.0, note)


def _weights_first(cells: Cells, where: str) -> Answer:
    """Whether weight matching leaves lower barriers than activation matching, for independent models."""
    claim = f"weight matching leaves a lower barrier than activation matching, independent models, {where}"
    answer = _difference(claim, GIT, (cells, "by_weights"), (cells, "by_activations"))
    return replace(answer, recorded=Outcome.VIOLATED)


def _longer(cells: Cells) -> Answer:
    """Whether the barrier after weight matching is lower after the longest training than after the shortest.

    Cells with the same starts are compared.
    """
    passes = [int(count) for count in cells.passes.to_numpy()]
    short, long = min(passes), max(passes)
    claim = f"weight matching leaves a lower barrier after {long} passes than after {short}, independent models"
    if short == long:
        claim = "weight matching leaves a lower barrier after longer training, independent models"
        reason = f"all cells are of {long} passes; two lengths of training are needed"
        return untested(claim, GIT, None, reason, ("passes",))
    first, last = (cells.sel(models=INDEPENDENT, passes=count) for count in (short, long))
    change = (last["by_weights"] - first["by_weights"]).mean(
        [name for name in first["by_weights"].dims if name != "width"]
    )
    rising = [str(width) for width in change.width.to_numpy()[change.to_numpy() > 0]]
    note = f"on average higher at width {', '.join(rising)}" if rising else ""
    return _difference(claim, GIT, (last, "by_weights"), (first, "by_weights"), note)


def _difference(claim: str, source: str, first: tuple[Cells, str], other: tuple[Cells, str], note: str = "") -> Answer:
    """Whether the mean difference of two kinds of barriers is below 0, by Student's interval.

    The mean is over cells that have both barriers.
    """
    (left, unsure), (right, less_sure) = (
        (cells[name].to_numpy(), errors(cells, name).to_numpy()) for cells, name in (first, other)
    )
    claim = f"{claim}: mean difference of the barriers, in nats"
    both = ~(np.isnan(left) | np.isnan(right))
    if np.isinf(left[both]).any() or np.isinf(right[both]).any():
        return infinite(claim, source, None)
    change, error = (left - right)[both], (unsure + less_sure)[both]
    if len(change) < FEWEST_CELLS:
        return untested(claim, source, None, f"{len(change)} pairs of cells; {FEWEST_CELLS} are needed")
    half = half_width(change, LEVEL) + error.mean()
    counts = f"of {len(change)} pairs of cells lower in {np.sum(change < -error)}, higher in {np.sum(change > error)}"
    measured = Estimate(change.mean(), half, f"Student's {LEVEL:.0%} interval", Rigour.SAMPLED)
    return at_most(claim, source, measured, 0.0, joined(counts, note))


def charts(cells: Cells) -> Iterable[Chart]:
    """Barriers against the width after the longest training, before and after alignment.

    Each data set has two panels. One panel is about models that have two starts. The other panel is about models that
    have one start, including the clients of FedAvg and FedGuCci.
    """
    longest, there = cells.passes.max(), set(map(str, cells.models.to_numpy()))

    def panel(data: str, title: str, kinds: tuple[str, ...], names: tuple[str, ...]) -> Panel:
        series = [
            points(f"{kind}, {AFTER[name]}", cells[name].sel(data=data, passes=longest, models=kind), "width", mean)
            for kind in kinds
            if kind in there
            for name in names
        ]
        return Panel(
            f"{data}: {title}", Label("width h", "units", log=True), Label("loss barrier [nats]"), tuple(series)
        )

    panels = [
        drawn
        for data in map(str, cells.data.to_numpy())
        for drawn in (
            panel(data, "trained alone", (INDEPENDENT, CONNECTED), tuple(AFTER)),
            panel(data, "from one start", (ONE_START, FEDAVG, FEDGUCCI), ("barrier", "by_weights")),
        )
        if drawn.series
    ]
    yield Chart(
        "alignment",
        f"Exact barriers of the cross-entropy on {SEEN} training images between two networks trained on {IMAGES} "
        f"for {int(longest)} passes, before and after the second's units are permuted to fit the first's; "
        f"connected, and FedGuCci: beta = {BETA:g}; {cells.sizes[SEED]} seeds; {STUDENT_BARS}.",
        "Loss barrier against width for independent models, those connected to an anchor or of one start, and "
        "clients; before and after alignment.",
        tuple(panels),
    )


def _weights(point: Point) -> int:
    return point["width"] * (784 if point["data"] == "fashion-mnist" else 64)


def _seconds(point: Point) -> float:
    weights = _weights(point)
    steps = 2 * IMAGES / 50 * point["passes"] * {CONNECTED: 2.5, FEDGUCCI: 2}.get(point["models"], 1)
    return 0.3 + steps * (1e-3 + 1.5e-8 * weights) + 3e-4 * point["width"] + 1e-6 * point["width"] ** 2


def _megabytes(point: Point) -> float:
    """The memory of a cell, estimated from the memory of measured cells.

    On digits the barriers took 565 megabytes with 16 units, 729 with 1024 and 1212 with 4096. With far more units the
    search for the permutation takes most of the memory.
    """
    width = point["width"]
    return 600 + max(0.17 * width, 2e-5 * width**2) + 6.4e-5 * _weights(point)


STUDY = Study(
    name="alignment",
    question="Is there a barrier between two models once the units of one are permuted to fit the other's?",
    source="Entezari et al. 2022, Conjecture 1; Ainsworth et al. 2023, Git Re-Basin; FedGuCci",
    axes=(
        Axis("data", ("digits", "fashion-mnist"), "images"),
        Axis("models", KINDS, "how the two models were trained"),
        Axis("passes", (4, 20), "passes over the training images", least=ROUND),
        Axis("width", (16, 64, 256, 1024, 4096), "hidden units h", option="widths", least=1),
        seeds(4, "of images, starts and orders"),
    ),
    quantities=(
        *(Quantity(name, f"loss barrier of the cross-entropy {says}", "nats") for name, says in AFTER.items()),
        Quantity("moved", "share of units that weight matching moves"),
        Quantity("moved_by_activations", "share of units that activation matching moves"),
        Quantity("distance", "distance of the two models' weights"),
        Quantity("aligned_distance", "distance of the weights after weight matching"),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=_seconds,
    megabytes=_megabytes,
)
