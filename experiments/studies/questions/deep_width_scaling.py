"""Deep width scaling: with which power of the width do deep networks, trained in every layer, approach their limit?

A cell is one network, which the training engine trains by FedAvg. The network is compared with two kernel regimes. One
regime has the limit kernel, and the other has the network's own kernel before training. The labels are the network's
outputs before training plus a fixed vector r_0, y_m(0) + r_0. So all cells start with the same residual, and only the
width varies. No two cells share random numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from experiments.studies.answers import along, at_most, exponent, joined, samples
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.random_seed import own_seed
from experiments.studies.series import BARS, mean, measured_numbers, numbers_panel, width_panels
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from ntkfl import Problem, Setup, data, gram
from ntkfl.gram.finite_width import in_float64
from ntkfl.limit.infinite_width import KernelRegime, algorithm1_limit

if TYPE_CHECKING:
    from ntkfl.training.models.wide_networks import WideNetwork

SAMPLES, TEST_POINTS, CLIENTS = 12, 12, 3
STEPS, ROUNDS = 2, 10
SHARE = 0.3  # eta_local as a share of the stability limit for the limit kernel
NETWORKS = tuple(f"fc:{depth}:{phi}" for phi in ("relu", "erf") for depth in range(2, 7))
KINKED = ("relu",)  # activations with a jump in their derivative
SOURCE = "docs/proofs/finite_width.md#deep-networks"
LIMITS, SMOOTH, KINKS = (f"deep/{label}; {SOURCE}" for label in ("widths", "smooth", "kinks"))
QUANTITIES = {
    "kernel": "|H_m(0) - H_inf|_F / |H_inf|_F",
    "limit": "max_t |y_m(t) - y_inf(t)| / |r_0|",
    "prediction": "RMS over test points of f(x, T) - f(x, 0) less its limit",
    "own": "max_t |y_m(t) - y_own(t)| / |r_0|, y_own of the kernel H_m(0)",
    "drift": "|H_m(T) - H_m(0)|_F / |H_inf|_F",
}
TO_LIMIT, TO_OWN = ("kernel", "limit", "prediction"), ("own", "drift")
POWER = dict.fromkeys(TO_LIMIT, -0.5) | dict.fromkeys(TO_OWN, -1.0)
# A panel of runs has at most SHOWN widths. Points of several series at one place of an axis are drawn side by side,
# with the distance APART, in units of this axis, between neighbours.
SHOWN, APART = 3, 0.2
# a convolution with m channels takes this many times as long as a dense layer with m neurons
CONVOLUTION = 100
WIDEST = 4  # a second slope is fitted to this number of the largest widths
NOTE = "the interval includes the change of the slope if the two smallest widths are left out"
BENDS = "no single power: smooth parts fall as m^(-1), the average effect of kinks as m^(-1/2)"


@cache
def problem() -> Problem:
    """The data of every cell with test points, and with r_0 as labels."""
    return data.digits(SAMPLES, clients=CLIENTS, test=TEST_POINTS)


@cache
def limit(network: str) -> KernelRegime:
    """The exact infinite-width limit of a network on these data, from outputs 0 and with labels r_0."""
    kernel = _network(network).kernel
    setup = Setup(eta_local=1.0, local_steps=STEPS, rounds=ROUNDS)
    regime = algorithm1_limit(problem(), setup, kernel)
    return regime.at(replace(setup, eta_local=SHARE * regime.step_limits.eta_local))


def measure(point: Point) -> Measured:
    """Distances of a trained network from the limit and from its own kernel's regime; its residuals by round."""
    import torch  # imported here, since it is slow to load; the following imports need it

    from ntkfl.training.engine_trajectory import network_trajectory

    name, width, theory = point["network"], point["width"], limit(point["network"])
    assert theory.problem.x_test is not None, "the data have test points"
    x, r0, scale = theory.problem.x, theory.problem.y, float(np.linalg.norm(theory.gram))
    model = _network(name).model(x.shape[1:], width)
    start = model.initial(own_seed(point[SEED], width, name))
    before, after = (model.outputs(start, torch.tensor(z)).numpy() for z in (x, theory.problem.x_test))
    here = replace(theory.problem, y=before + r0)
    kernel = gram.empirical(x, model, start)
    measured = {"kernel": float(np.linalg.norm(kernel - theory.gram)) / scale}
    try:
        run = network_trajectory(here, theory.setup, model, start, keep=(ROUNDS,))
    # a cell whose run overflows has infinite distances; if such cells were left out, the results would look too good
    except FloatingPointError:
        far = dict.fromkeys(("limit", "prediction", *TO_OWN), np.inf)
        return measured | far | {"residual": [np.inf] * (ROUNDS + 1)}
    end = in_float64(run.weights[ROUNDS])
    moved, rounds = run.outputs - before, np.arange(ROUNDS + 1)
    own = algorithm1_limit(theory.problem, theory.setup, kernel)
    trained = model.outputs(end, torch.tensor(theory.problem.x_test)).numpy() - after

    def off(regime: KernelRegime) -> float:
        return float(np.linalg.norm(moved - regime.outputs(rounds), axis=1).max() / np.linalg.norm(r0))

    return measured | {
        "limit": off(theory),
        "prediction": float(np.sqrt(((trained - theory.predict(theory.problem.x_test, ROUNDS)) ** 2).mean())),
        "own": off(own),
        "drift": float(np.linalg.norm(gram.empirical(x, model, end) - kernel)) / scale,
        "residual": (np.linalg.norm(moved - r0, axis=1) / np.linalg.norm(r0)).tolist(),
    }


@cache
def _network(name: str) -> WideNetwork:
    # imported here, since it imports torch, which is slow to load
    from ntkfl.training.models.wide_networks import WideNetwork

    return WideNetwork.named(name)[0]


def _work(point: Point) -> float:
    """About the number of parameters, times a factor for convolutions.

    The network's name is read without torch.
    """
    kind, depth = point["network"].split(":")[:2]
    width = point["width"]
    return ((int(depth) - 2) * width**2 + 65 * width) * (CONVOLUTION if kind == "conv" else 1)


def named(word: str) -> str:
    """The name of a network in the form that the study uses; a network in the study has the NTK parametrisation.

    Raises:
        ValueError: the word names no network, or has a width or the standard parametrisation.
    """
    from ntkfl.training.models.wide_networks import WideNetwork

    network, width = WideNetwork.named(word)
    if width is not None:
        raise ValueError(f"--networks has {word!r} with the width {width}; widths are given by --widths")
    if network.standard:
        plain = replace(network, standard=False).name
        raise ValueError(f"--networks has {word!r}; it is the same function as {plain}, which the study takes")
    return network.name


def summarise(cells: Cells) -> Iterable[Answer]:
    """Answers about the power of the width for every quantity, and then answers about the effect of depth.

    The power of the width is fitted to each family of networks that differ only in depth, all taken together. It is
    also fitted to each network alone.
    """
    networks = [str(name) for name in cells.network.to_numpy()]
    families = _families(networks)
    several = {label: members for label, members in families.items() if len(members) > 1}
    for group in (several, {name: [name] for name in networks}):
        for quantity, (label, members) in product(QUANTITIES, group.items()):
            yield _of_width(cells, quantity, label, members)
    for label, members in families.items():
        yield _of_depth(cells, label, members)


def _of_width(cells: Cells, quantity: str, label: str, networks: Sequence[str]) -> Answer:
    """The answer about the power of the width for one network, or for several together.

    The numbers of each network are divided by their mean along the widths.
    """
    widths, power, says = cells.width.to_numpy().astype(float), POWER[quantity], QUANTITIES[quantity]
    rows = [_over_their_mean(samples(cells[quantity].sel(network=name), "width")) for name in networks]
    measured = [np.concatenate(column) for column in zip(*rows, strict=True)]
    if quantity in TO_LIMIT or _network(networks[0]).activation not in KINKED:
        claim, source = f"{says} ~ m^({power:g}) under {label}", LIMITS if quantity in TO_LIMIT else SMOOTH
        return exponent(claim, source, power, widths, measured, axes=("width",), biased=False, note=NOTE)
    # The quantity is a sum of two powers of the width: smooth parts fall as m^(-1), and the average effect of the kinks
    # of ReLU is small and falls as m^(-1/2). So no single power can be tested. The upper bound m^(-1/2) of the
    # literature is tested instead.
    claim = f"{says} falls as m^(-1/2) or faster under {label}"
    answer = exponent(claim, KINKS, -0.5, widths, measured, axes=("width",), biased=False)
    if answer.measured is None:
        return replace(answer, theory=None)
    widest = exponent(claim, KINKS, -0.5, widths[-WIDEST:], measured[-WIDEST:], biased=False).measured
    last = f"{widest.value:.2f} over the widest {WIDEST}" if widest is not None else ""
    return at_most(claim, KINKS, answer.measured, -0.5, joined(last, BENDS))


def _over_their_mean(rows: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The cells of each width, divided by the geometric mean of the RMS along the widths.

    This division does not change the power.
    """
    sizes = np.array([np.sqrt((sample**2).mean()) for sample in rows if len(sample)])
    known = sizes[(sizes > 0) & (sizes < np.inf)]
    return [sample / np.exp(np.log(known).mean()) if len(known) else sample for sample in rows]


def _of_depth(cells: Cells, label: str, networks: Sequence[str]) -> Answer:
    """The answer about m |H_m(0) - H_inf|^2 against the number of hidden layers, for all widths together."""
    scaled = cells["kernel"] * np.sqrt(cells.width)
    hidden = [_network(name).depth - 1.0 for name in networks]
    rows = [np.concatenate(samples(scaled.sel(network=name), "width")) for name in networks]
    claim = f"m^(1/2) {QUANTITIES['kernel']} ~ (hidden layers)^(1/2) under {label}"
    return exponent(claim, SOURCE, 0.5, hidden, rows, axes=("network",), biased=False, note=NOTE)


def _families(networks: Sequence[str]) -> dict[str, list[str]]:
    """Networks that differ only in their depth, by a common name such as "fc:L:relu"; shallow networks come first."""
    by_label: dict[str, list[str]] = {}
    for name in networks:
        kind, _, *rest = name.split(":")
        by_label.setdefault(":".join((kind, "L", *rest)), []).append(name)
    return {label: sorted(members, key=lambda name: _network(name).depth) for label, members in by_label.items()}


def charts(cells: Cells) -> Iterable[Chart]:
    """Charts of the quantities against the width, of the powers, of the kernel's distance by depth, and of runs."""
    families = _families([str(name) for name in cells.network.to_numpy()])
    return _of_widths(cells, families), _exponents(cells), _of_depths(cells, families), _runs(cells, families)


def _of_widths(cells: Cells, families: dict[str, list[str]]) -> Chart:
    panels: list[Panel] = []
    for quantity in QUANTITIES:
        y = Label(quantity, log=True)
        for label, members in families.items():
            of_kinks = [-0.5] if quantity in TO_OWN and label.split(":")[2] in KINKED else []
            powers = {power: f"m^({power:g})" for power in (POWER[quantity], *of_kinks)}
            panels += width_panels(f"{quantity}, {label}", y, cells[quantity], "network", members, powers)
    description = "; ".join(f"{name}: {says}" for name, says in QUANTITIES.items())
    return Chart(
        "deep-width-scaling",
        f"{description}. {_setting(cells)}; {BARS}.",
        "Log-log plots: distances from the limit fall with the width as m^(-1/2); the distance from the network's own "
        "kernel regime and the drift of that kernel fall as m^(-1), for ReLU more slowly at large widths.",
        tuple(panels),
    )


def _setting(cells: Cells) -> str:
    return (
        f"FedAvg, all layers trained; digits, n = {SAMPLES}, {CLIENTS} clients, K = {STEPS}, T = {ROUNDS}, eta_local = "
        f"{SHARE:g} of the limit kernel's stability limit; {cells.sizes[SEED]} seeds, none of whose networks share "
        "random numbers"
    )


def _exponents(cells: Cells) -> Chart:
    networks = [str(name) for name in cells.network.to_numpy()]
    panels = []
    for title, group in (("off the limit", TO_LIMIT), ("off its own kernel", TO_OWN)):
        series = []
        for row, quantity in enumerate(group):
            slopes = [_of_width(cells, quantity, name, [name]).measured for name in networks]
            series.append(measured_numbers(quantity, _beside(range(len(networks)), row, len(group)), slopes))
        for power in dict.fromkeys((*(POWER[quantity] for quantity in group), -0.5)):
            series.append(Series(f"{power:g}", "theory", [*map(float, range(len(networks)))], [power] * len(networks)))
        panels.append(numbers_panel(title, networks, series))
    return Chart(
        "deep-exponents",
        f"The power of the width with which each distance falls, over {cells.sizes['width']} widths; bars: 99% "
        "intervals, which include the bias of the two smallest widths. The lines are -1/2 and -1; the average effect "
        "of ReLU's kinks on own and drift falls only as m^(-1/2), so that their powers lie between the two.",
        "Measured exponents with their intervals beside -1/2 and -1, one network in each line.",
        tuple(panels),
    )


def _of_depths(cells: Cells, families: dict[str, list[str]]) -> Chart:
    squares = cells["kernel"] ** 2 * cells.width
    panels = []
    for label, members in families.items():
        hidden = [_network(name).depth - 1.0 for name in members]
        columns = mean([np.concatenate(along(squares.sel(network=name), "width")) for name in members])
        value = np.array(columns[0])
        per_layer = float(np.nanmean(value / hidden)) if np.isfinite(value).any() else np.nan
        series = (
            Series("networks of all widths", "measured", hidden, *columns),
            Series("in proportion to the layers", "theory", hidden, [per_layer * layers for layers in hidden]),
        )
        y = Label("m |H_m(0) - H_inf|^2 / |H_inf|^2", log=True)
        panels.append(Panel(label, Label("hidden layers L - 1", log=True), y, series))
    return Chart(
        "deep-fluctuation",
        f"How far the kernel of a network is from its limit before training, by depth: the squared distance times the "
        f"width, the mean over {cells.sizes['width']} widths and {cells.sizes[SEED]} seeds each; bars: 99% intervals.",
        "The squared relative distance times the width grows with the number of hidden layers, about in proportion.",
        tuple(panels),
    )


def _runs(cells: Cells, families: dict[str, list[str]]) -> Chart:
    widths, rounds = cells.width.to_numpy(), range(ROUNDS + 1)
    shown = dict.fromkeys(int(widths[place]) for place in np.linspace(0, len(widths) - 1, SHOWN).round().astype(int))
    panels = []
    for members in families.values():
        name, series = members[-1], []
        for row, width in enumerate(shown):
            curves = along(cells["residual"].sel(network=name, width=width), "round")
            value, low, high = (
                [float(pick(curve)) if len(curve) else np.nan for curve in curves]
                for pick in (np.median, np.min, np.max)
            )
            series.append(Series(f"m = {width}", "measured", _beside(rounds, row, len(shown)), value, low, high))
        sizes = np.array([np.linalg.norm(left) for left in limit(name).residual(np.array(rounds))])
        theory = sizes / np.linalg.norm(problem().y)
        series.append(Series("infinite width", "theory", [*map(float, rounds)], theory.tolist()))
        panels.append(Panel(name, Label("round t"), Label("|y - y_m(t)| / |r_0|", log=True), tuple(series)))
    return Chart(
        "deep-runs",
        f"Runs closing in on the limit: the residual by round, the median of {cells.sizes[SEED]} networks of a width, "
        f"with bars from the least to the greatest, and that of infinite width. {_setting(cells)}.",
        "Residuals of networks by round: the wider the networks, the closer all lie to that of infinite width.",
        tuple(panels),
    )


def _beside(at: Sequence[int], row: int, rows: int) -> list[float]:
    """Positions for the points of series number `row`, when `rows` series are drawn side by side.

    `at` has the places on the axis that all these series share.
    """
    return [place + APART * (row - (rows - 1) / 2) for place in at]


STUDY = Study(
    name="deep-width-scaling",
    question="With which power of the width do deep networks, trained in every layer, approach their kernel regime?",
    source=SOURCE,
    axes=(
        Axis("network", NETWORKS, "or any other, KIND:DEPTH:ACTIVATION", option="networks", read=named),
        Axis("width", (64, 96, 128, 192, 256, 384, 512, 768), "neurons of a layer", option="widths", least=1),
        seeds(18, "of the initial network"),
    ),
    inner=(Axis("round", tuple(range(ROUNDS + 1)), "round t"),),
    quantities=(
        *(Quantity(name, says) for name, says in QUANTITIES.items()),
        Quantity("residual", "|y - y_m(t)| / |r_0|", along=("round",)),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.1 + 8e-7 * _work(point),
    megabytes=lambda point: 575 + 1.3e-4 * _work(point),
)
