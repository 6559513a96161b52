"""IMA window: how much noise is left in the mean of the last P global models, for each P and first round of averaging?

On a quadratic loss, a round turns the model v that the server sends out into w = rho v + noise of variance 1. At first
v is the last model; from round t_s on it is the mean of the last P models. Many runs are simulated. The second moment
of v after the last round is also known exactly, by the recursion of mean and covariance. Far from the start it has the
closed form 1/((P + rho)(1 - rho)).
"""

from collections.abc import Iterable

import numpy as np

from experiments.studies.answers import FEWEST_CELLS, exponent, half_width, infinite, sampled, samples, untested
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.series import BARS, line, points
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from ntkfl.estimate import Estimate, Rigour

# a run has ROUNDS rounds, a cell has RUNS runs, and the first model has this DISTANCE from the optimum
ROUNDS, RUNS, DISTANCE = 2000, 128, 10.0
# if the exact moment of a cell is nearer than this to the closed form, relatively, the start has no effect any more
SETTLED = 0.01
SOURCE = "averaging/I11"


def measure(point: Point) -> Measured:
    """The root mean square of the last model sent out: over the runs, exactly, and in the limit of many rounds."""
    rho, window = point["rho"], point["window"]
    start = round(point["start"] * ROUNDS)
    rng = np.random.default_rng((point[SEED], window, start, int(np.float64(rho).view(np.uint64))))
    kept = np.full((1, RUNS), DISTANCE)  # the last models, with the newest first
    for number in range(1, ROUNDS + 1):
        sent = kept[: used(number - 1, window, start)].mean(axis=0)
        kept = np.concatenate([(rho * sent + rng.standard_normal(RUNS))[None], kept])[:window]
    final = kept[: used(ROUNDS, window, start)].mean(axis=0)
    return {
        "left": float(np.sqrt((final**2).mean())),
        "exact": float(np.sqrt(second_moment(rho, window, start, ROUNDS))),
        "settled": float(1 / np.sqrt((window + rho) * (1 - rho))),
    }


def used(number: int, window: int, start: int) -> int:
    """The number of models whose mean is sent out after `number` rounds."""
    return min(window, number + 1) if number >= start else 1


def second_moment(rho: float, window: int, start: int, rounds: int) -> float:
    """E v^2 after `rounds` rounds, computed round by round from the mean and covariance of the last models."""
    mean, covariance = np.zeros(window), np.zeros((window, window))
    mean[0] = DISTANCE
    down = np.eye(window, k=-1)
    for number in range(1, rounds + 1):
        step, count = down.copy(), used(number - 1, window, start)
        step[0, :count] = rho / count
        mean, covariance = step @ mean, step @ covariance @ step.T
        covariance[0, 0] += 1
    share = np.zeros(window)
    share[: used(rounds, window, start)] = 1 / used(rounds, window, start)
    return float(share @ covariance @ share + (share @ mean) ** 2)


def summarise(cells: Cells) -> Iterable[Answer]:
    """The runs compared with the exact moment, and the power of the window compared with the closed form."""
    settled = abs((cells.exact / cells.settled) ** 2 - 1) < SETTLED
    left = cells.left.where(settled) * np.sqrt(1 - cells.rho)
    yield _against_exact(cells)
    for rho in cells.rho.to_numpy():
        sizes = cells.window.to_numpy() + float(rho)
        claim = f"noise that the mean of P models leaves ~ (P + rho)^(-1/2), rho = {rho:g}"
        note = f"cells whose exact moment is within {SETTLED:.0%} of the closed form"
        rows = samples(left.sel(rho=rho), "window")
        yield exponent(claim, SOURCE, -0.5, sizes, rows, axes=("window",), biased=False, note=note)


def _against_exact(cells: Cells) -> Answer:
    claim = "E v(T)^2 equals its value by the recursion of mean and covariance: mean over cells of the ratio"
    ratio = ((cells.left / cells.exact) ** 2).to_numpy().ravel()
    ratio = ratio[~np.isnan(ratio)]
    if len(ratio) < FEWEST_CELLS:
        return untested(claim, SOURCE, 1.0, f"{len(ratio)} cells; {FEWEST_CELLS} are needed")
    if np.isinf(ratio).any():
        return infinite(claim, SOURCE, 1.0)

    def interval_at(level: float) -> Estimate:
        half = half_width(ratio, level)
        return Estimate(ratio.mean(), half, f"Student's {level:.6g} interval", Rigour.SAMPLED)

    return sampled(claim, SOURCE, 1.0, interval_at)


def charts(cells: Cells) -> Iterable[Chart]:
    """The remaining noise against the window, with a panel for each rho and a series for each start of averaging."""
    panels = []
    for rho in cells.rho.to_numpy():
        series: list[Series] = []
        for start in cells.start.to_numpy():
            at, name = cells.sel(rho=rho, start=start), f"averaging from {start:g} T"
            series += [points(name, at.left, "window"), line("exact", at.exact, "window", of=name)]
        settled = line("((P + rho)(1 - rho))^(-1/2) (dotted)", cells.settled.sel(rho=rho), "window", "bound")
        what = Label("rms distance of the model sent out", log=True)
        panels.append(Panel(f"rho = {rho:g}", Label("window P", "models", log=True), what, (*series, settled)))
    yield Chart(
        "ima-window",
        f"Noise that the mean of the last P global models leaves on a quadratic after T = {ROUNDS} rounds, from a "
        f"distance of {DISTANCE:g}; {RUNS} runs a cell, {cells.sizes[SEED]} seeds; {BARS}.",
        "The distance left falls with the window like a power; averaging from late on has not settled.",
        tuple(panels),
    )


STUDY = Study(
    name="ima-window",
    question="How much noise does the mean of the last P global models leave, by P and by the round it starts in?",
    source="IMA, Eq (5) and section 6.2; I11 (docs/proofs/linear_methods.md#noise-in-a-window)",
    axes=(
        Axis("window", (1, 2, 5, 10, 20), "models P in the mean", least=1),
        Axis("start", (0.0, 0.5, 0.75, 0.98), "round t_s from which on models are averaged", "T", least=0),
        Axis("rho", (0.5, 0.9), "share of the distance to the optimum that a round leaves", above=0, below=1),
        seeds(5, "of the noise"),
    ),
    quantities=(
        Quantity("left", "root mean square over runs of the model sent out after T rounds"),
        Quantity("exact", "root of the second moment of this model, exact"),
        Quantity("settled", "root of the second moment far from the start, ((P + rho)(1 - rho))^(-1/2)"),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.05,
    megabytes=lambda point: 120 + 4e-5 * point["window"] ** 2,
)
