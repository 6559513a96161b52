"""Stability map: at which pairs of step sizes does training diverge, and does the kernel regime predict them?

A cell trains one network from a residual of a given size. It also computes the limits of stable steps in two kernel
regimes: one with the kernel of infinite width, and one with the network's own H(0). A run counts as grown if its
residual was ever GROWN times the initial one. From a small residual, whether a run grows depends only on H(0). A
residual of order 1 changes the kernel while the residual grows. So a network whose steps are slightly beyond the limit
may settle in a flatter region of the loss. The kernel regime does not describe such a run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from bounds import Outcome
from experiments.studies.answers import FEWEST_COMPARED, interval, untested, upper
from experiments.studies.chart import Chart, Heatmap, Label, Series
from experiments.studies.series import places
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from experiments.studies.study_data import DATA, data_of, on_data
from ntkfl import Estimate, Problem, Setup, Trajectory, data, gram, kernel_regime, networks, simulate, simulate_network
from ntkfl.initialisation import draw

TWO_LAYER = "two-layer"  # FL-NTK's network
SPHERE = "sphere"
N_SAMPLES, FEATURES, CLIENTS, WIDTH, ROUNDS = 12, 12, 3, 4096, 120
DEEP_WIDTH = 256  # the width of networks other than FL-NTK's
SMALL = 0.01  # from a residual up to this size, growth depends only on H(0)
# A run has grown if its residual reaches GROWN times the initial one. Multiples above MOST are recorded as MOST, and so
# is an overflow.
GROWN, MOST = 3.0, 1e6
# a run can show growth only if the kernel regime predicts growth by the factor DECIDED or more in ROUNDS rounds
DECIDED = 100.0
ETA, SERVER, STEPS, SIZE = "eta_local", "eta_global", "local_steps", "residual"
SOURCE = "fl-ntk/X.3"


def measure(point: Point) -> Measured:
    """The last and the largest residual of a run, and the limits of stable steps."""
    drawn = problem_of(point[DATA], point[SEED])
    setup = Setup(
        width=WIDTH,
        eta_local=point[ETA],
        eta_global=point[SERVER],
        local_steps=point[STEPS],
        rounds=ROUNDS,
        seed=point[SEED],
    )
    start, infinite, own, train = _network(point["network"], drawn.x, setup)
    problem = replace(drawn, y=start + point[SIZE] * drawn.y)
    # no warnings, since steps beyond the limit are what this study is about
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        limit, regime = kernel_regime(problem, setup, infinite), kernel_regime(problem, setup, own)
        try:
            residual = train(problem).residual_norm
            last, peak = residual[-1] / residual[0], residual.max() / residual[0]
        except FloatingPointError:
            last = peak = MOST
    return {
        "last": float(min(last, MOST)),
        "peak": float(min(peak, MOST)),
        "limit": limit.step_limits.eta_global,
        "limit_local": limit.step_limits.eta_local,
        "own_limit": regime.step_limits.eta_global,
        "own_limit_local": regime.step_limits.eta_local,
        "own_rate": regime.rate,
        "finite_width": float(np.linalg.norm(own - infinite, 2) / np.linalg.norm(infinite, 2)),
    }


def problem_of(name: str, seed: int) -> Problem:
    """The data of a cell, which are a few points of the sphere, or all points of other data."""
    return data.sphere(N_SAMPLES, FEATURES, seed=seed, clients=CLIENTS) if name == SPHERE else data_of(name, seed)


def _network(
    name: str, x: np.ndarray, setup: Setup
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Callable[[Problem], Trajectory]]:
    """The network of a cell: its outputs on x, the limit kernel, its own kernel, and a function that trains it."""
    if name == TWO_LAYER:
        weights = draw(setup.width, x.shape[1], setup.seed)

        def train(problem: Problem) -> Trajectory:
            return simulate(problem, setup, weights, movements=False)

        return weights.outputs(x), gram.infinite(x), gram.finite(x, weights.hidden), train
    import torch

    wide = networks.wide(name)
    network = wide.model((x.shape[1],), DEEP_WIDTH)
    params = network.initial(setup.seed)
    outputs = network.outputs(params, torch.tensor(np.array(x))).numpy()
    own = gram.empirical(x, network, params)
    return outputs, wide.kernel(x), own, lambda problem: simulate_network(problem, setup, network, params)


def network_name(word: str) -> str:
    """The word, if it is the name of a network: "two-layer", or a network of any depth as in `ntkfl.networks.wide`.

    Raises:
        ValueError: the word names no network.
    """
    return word if word == TWO_LAYER else networks.wide(word).name


def summarise(cells: Cells) -> Iterable[Answer]:
    """Where growth begins compared with the limit, whether runs do as predicted, and whether eta_g <= 1 is stable."""
    sizes = cells[SIZE].to_numpy()
    # the cells with the smallest residual; none if all residuals are large
    small = cells.sel({SIZE: sizes[sizes == sizes.min(initial=SMALL)]})
    yield _where_growth_begins(small)
    yield _as_predicted(small)
    for size in sizes:
        if size not in small[SIZE].to_numpy():
            yield _not_before(cells.sel({SIZE: size}), float(size))
    yield _small_server_steps(cells)


def _where_growth_begins(cells: Cells) -> Answer:
    """The answer about the step at which growth begins, divided by the predicted limit.

    In each column of the grid, this step lies between two neighbouring steps.
    """
    claim = "growth begins at eta_g = 2N / nu_max: boundary over limit, every eta_l below its own limit"
    lows, highs, _ = _boundaries(cells)
    if not len(lows):
        reason = f"no column from a residual of {SMALL:g} or less has all its runs"
        return untested(claim, SOURCE, 1.0, reason, (SEED,) if cells.sizes[SIZE] else (SIZE,))
    slack = float(cells.finite_width.max()) * float(cells[SIZE].max())
    low, high = lows.max() - slack, highs.min() + slack
    if low <= 1 and high == np.inf:
        return untested(claim, SOURCE, 1.0, "no column of the grid has the limit within it", (SERVER,))
    estimate = Estimate.between(low, high, "neighbours on the grid") if low <= high < np.inf else None
    note = f"nu_max of H(0), {len(lows)} columns, from a residual of {float(cells[SIZE].max()):g}"
    if estimate is not None and low <= 1 <= high:
        return interval(claim, SOURCE, 1.0, estimate, note)
    note += f"; in one column no run grows up to {low:.3g} times the limit; in one, runs grow from {high:.3g} times on"
    return Answer(claim, SOURCE, 1.0, estimate, Outcome.VIOLATED, note)


def _not_before(cells: Cells, size: float) -> Answer:
    """Whether no run from a larger residual grows below the limit.

    A larger residual changes the kernel as it grows.
    """
    claim = f"from a residual of {size:g} no run grows below the limit: limit over the least step with growth"
    _, highs, least = _boundaries(cells)
    first = highs[least < 1]
    slack = float(cells.finite_width.max())
    note = f"allowed for: |H(0) - H_inf| / |H_inf| = {slack:.2g}, which is also how far training moves the kernel"
    return upper(claim, SOURCE, 1 / first, 1 + slack, note=note)


def _boundaries(cells: Cells) -> np.ndarray:
    """Three steps for each column of the grid, each divided by the limit.

    They are the largest step without growth (0 if there is none), the smallest step with growth (infinite if there is
    none), and the smallest step that was tried. Columns are left out if a run is missing, or if the client step is not
    below the limit at which training of a client alone becomes unstable.

    For some steps the kernel regime predicts growth that is too slow to be seen within ROUNDS. If the run with such a
    step shows no growth, the step does not count as a step without growth. A fine grid has such steps beyond the limit.
    """
    ordered = cells.sortby(SERVER).transpose(SERVER, ...)
    steps = ordered[SERVER].to_numpy().astype(float)
    names = "peak", "own_limit", "own_limit_local", "own_rate"
    peaks, limits, local, rates = (ordered[name].to_numpy() for name in names)
    slow = (rates > 1) & (rates < DECIDED ** (1 / ROUNDS))
    below = ordered[ETA].broadcast_like(ordered.peak).transpose(*ordered.peak.dims).to_numpy() < local
    boundaries = []
    for place in np.ndindex(peaks.shape[1:]):
        column = (slice(None), *place)
        limit, grown = limits[column][0], peaks[column] >= GROWN
        if np.isfinite(peaks[column]).all() and below[column].all() and 0 < limit < np.inf:
            calm = ~grown & ~slow[column]
            ends = steps[calm].max(initial=0), steps[grown].min(initial=np.inf), steps[0]
            boundaries.append(np.array(ends) / limit)
    return np.reshape(boundaries, (-1, 3)).T


def _as_predicted(cells: Cells) -> Answer:
    """The answer about the share of runs that do as the kernel regime of their own H(0) predicts.

    A run does as predicted if it grows and growth is predicted, or if it does not grow and no growth is predicted. Runs
    near the boundary are left out.
    """
    claim = "from a small residual a run grows exactly if 0 < (eta_g/N) nu < 2 fails, for even and odd K: share of runs"
    rate, peak = cells.own_rate.to_numpy(), cells.peak.to_numpy()
    with np.errstate(over="ignore"):
        growing = np.isfinite(peak) & (rate**ROUNDS >= DECIDED)
    calm = np.isfinite(peak) & (rate <= 1 - 1 / ROUNDS)
    note = f"{int((growing | calm).sum())} runs whose regime grows {DECIDED:g}-fold in {ROUNDS} rounds or contracts by "
    right = (peak >= GROWN) == growing
    return _share(claim, right, {"growing": growing, "calm": calm}, cells, f"{note}1/{ROUNDS}")


def _small_server_steps(cells: Cells) -> Answer:
    """The answer about runs with eta_g <= 1 and a client step below the client's own limit; none should grow."""
    claim = "eta_g <= 1 and eta_l < 2 / max_c |H_cc| is stable, whatever K: share of runs"
    below = cells[ETA] < (1 - cells.finite_width) * cells.own_limit_local
    chosen = (below & (cells[SERVER] <= 1) & np.isfinite(cells.peak)).transpose(*cells.peak.dims).to_numpy()
    return _share(claim, cells.peak.to_numpy() < GROWN, {"such": chosen}, cells, f"{chosen.sum()} runs")


def _share(claim: str, right: np.ndarray, kinds: dict[str, np.ndarray], cells: Cells, note: str) -> Answer:
    """The answer about the share of runs that do as predicted.

    A single run that does not do as predicted violates the claim. The claim holds only if there are enough runs of each
    of the `kinds`, both with even and with odd numbers of local steps.
    """
    chosen = np.any(list(kinds.values()), axis=0)
    if right[chosen].all():
        even = (cells[STEPS] % 2 == 0).broadcast_like(cells.peak).transpose(*cells.peak.dims).to_numpy()
        for kind, there in kinds.items():
            for parity, of_it in (("even", even), ("odd", ~even)):
                count = int((there & of_it).sum())
                if count < FEWEST_COMPARED:
                    reason = f"{count} {kind} runs with {parity} K; {FEWEST_COMPARED} are needed"
                    by = SEED if of_it.any() else STEPS if cells.sizes[SIZE] else SIZE
                    return untested(claim, SOURCE, 1.0, reason, (by,))
    return interval(claim, SOURCE, 1.0, Estimate.exact(float(right[chosen].mean())), note)


def charts(cells: Cells) -> Iterable[Chart]:
    """A chart for each network with the runs of the first seed; it has a map for each number of local steps."""
    return (_map(cells.sel({"network": name}), str(name)) for name in cells.network.to_numpy())


def _map(cells: Cells, name: str) -> Chart:
    size = float(cells[SIZE].max())
    at = cells.isel({SEED: 0}).sel({SIZE: size}).sortby([ETA, SERVER])
    across, up = places(at, ETA), places(at, SERVER)
    panels = []
    for steps in at[STEPS].to_numpy():
        chosen = at.sel({STEPS: steps}).transpose(SERVER, ETA)
        grown = chosen.peak.where(chosen.peak >= GROWN, chosen["last"])
        limit = np.nanmax(np.where(np.isfinite(chosen.limit), chosen.limit, np.nan), axis=0, initial=0.0)
        local = float(chosen.limit_local.max())
        panels.append(
            Heatmap(
                f"K = {steps}",
                Label("client step eta_local", log=True),
                Label("server step eta_global", log=True),
                Label("log10 |r(T)| / |r(0)|"),
                across,
                up,
                np.clip(np.log10(grown.to_numpy()), -3, 3).tolist(),
                (
                    Series("limit 2N / nu_max", "theory", across, np.where(limit > 0, limit, np.nan).tolist()),
                    Series("limit of a client alone", "theory", [local, local], [up[0], up[-1]]),
                ),
            )
        )
    width = WIDTH if name == TWO_LAYER else DEEP_WIDTH
    return Chart(
        "stability-map" if name == TWO_LAYER else f"stability-map-{name.replace(':', '-')}",
        f"Residual after T = {ROUNDS} rounds, or its peak where it grew; {name}, width {width}, one seed, "
        f"first residual {size:g} a sample. Lines: the limits of the kernel regime; beyond the client's own, "
        "even K diverge at every server step and odd K do not.",
        "Maps over both step sizes; the residual grows beyond the predicted curve and falls before it.",
        tuple(panels),
    )


def spaced(least: float, most: float) -> tuple[float, ...]:
    """Fourteen step sizes with equal ratios, rounded to four digits."""
    return tuple(float(f"{step:.4g}") for step in np.geomspace(least, most, 14))


ON_SPHERE = Study(
    name="stability-map",
    question="At which pairs of step sizes does training diverge, and is it where the kernel regime says?",
    source="X.3 (docs/proofs/linear_methods.md#spectrum-and-stability); FL-NTK, Theorem B.3 (its step sizes)",
    axes=(
        Axis(
            "network",
            (TWO_LAYER,),
            "two-layer, or a network of any depth such as fc:3:relu",
            option="networks",
            read=network_name,
        ),
        Axis(ETA, spaced(0.1, 5), "step of the clients", above=0),
        Axis(SERVER, spaced(0.25, 16), "step of the server", above=0),
        Axis(STEPS, (2, 3), "local steps K", least=1),
        Axis(SIZE, (0.001, 1.0), "|y_i - y_i(0)| of every sample, over |y_i| of the data", above=0),
        seeds(1, "of data and network"),
    ),
    quantities=(
        Quantity("last", f"|r(T)| / |r(0)| of the run, at most {MOST:g}"),
        Quantity("peak", f"max_t |r(t)| / |r(0)| of the run, at most {MOST:g}"),
        Quantity("limit", "largest stable server step at infinite width; 0: none"),
        Quantity("limit_local", "largest step at which a client alone is stable, at infinite width"),
        Quantity("own_limit", "largest stable server step with H(0) of the network"),
        Quantity("own_limit_local", "largest step at which a client alone is stable, with H(0)"),
        Quantity("own_rate", "spectral radius of the round map with H(0)"),
        Quantity("finite_width", "|H(0) - H_inf| / |H_inf|"),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: (0.1 + 0.03 * point[STEPS]) * (1 if point["network"] == TWO_LAYER else 10),
    megabytes=lambda point: 450 if point["network"] == TWO_LAYER else 700,
)

STUDY = on_data(ON_SPHERE, SPHERE, f"n = {N_SAMPLES}, d = {FEATURES}, {CLIENTS} clients")
