"""Asymmetry: how does the asymmetry of the Gram matrix H(t,k) of local step k grow with k, and fall with the width m?

Row i of H(t,k) is computed with the activation patterns of the server's weights. Column j is computed with the patterns
of the weights that sample j's client has after k local steps. So H(t,k) is symmetric at k = 0, and for K = 1 it is
always symmetric. H(t,k) differs from its transpose because local steps flip activations. About eta_l k m^(1/2)
activations flip, and each flip changes entries of H(t,k) by about 1/m.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import numpy as np

from bounds.cases.snapshot import Snapshot
from bounds.ladders.slopes import slope
from bounds.ladders.width_ladder import WidthLadder
from experiments.studies.answers import equal, exponent, on_ladder, untested
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.random_seed import own_seed
from experiments.studies.running.stored_ladder import WIDTH, StoredLadder
from experiments.studies.series import BARS, WIDTHS, points
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from ntkfl import Estimate, Problem, Setup, data

N_SAMPLES, FEATURES, CLIENTS, STEPS = 6, 4, 3, 8
MEAN, FLUCTUATION = -0.5, -0.75  # mean and fluctuation of the asymmetry scale like these powers of the width
CHECK = "checks the code: the claim holds for all networks by the definition of H(t,k)"
DIFFERENCE, ETA, ROUND, STEP = "asymmetry", "eta_local", "round", "local_step"


@cache
def problem() -> Problem:
    """The data of every cell, with the initial residual as labels."""
    return data.sphere(N_SAMPLES, FEATURES, seed=0, clients=CLIENTS, labels="uniform")


def measure(point: Point) -> Measured:
    """H(t,k) - H(t,k)^T for every local step k of one round t.

    No two cells share a network.
    """
    width, eta, number = point[WIDTH], point[ETA], point[ROUND]
    # a `Snapshot` examines the middle round of a run, so the run has twice as many rounds
    setup = Setup(eta_local=eta, local_steps=STEPS, rounds=max(1, 2 * number))
    ((run,),) = WidthLadder(problem(), setup, (width,), (1,), own_seed(point[SEED], width, eta, number)).runs
    blocks = np.stack(np.split(Snapshot(run).grams().value, STEPS, axis=1))
    return {DIFFERENCE: (blocks - blocks.swapaxes(1, 2)).reshape(STEPS, -1).tolist()}


def summarise(cells: Cells) -> Iterable[Answer]:
    """Answers about the symmetry at k = 0, and about the powers of the width and of the step size in the asymmetry.

    The powers of the width are measured at the last local step, and the power of the step size after one local step.
    """
    last, largest = cells[STEP].to_numpy().max(), cells[ETA].to_numpy().max()
    first = abs(cells[DIFFERENCE].sel({STEP: 0})).max("pair", skipna=False)
    yield equal("H(t,0) = H(t,0)^T", "fl-ntk/Def 3.2", first, 0.0, 1.0, note=CHECK)
    for number in cells[ROUND].to_numpy():
        ladder = _ladder(cells.sel({ROUND: number, ETA: largest, STEP: last}))
        at = f"of H(t,k) - H(t,k)^T at t = {number}, k = {last}, eta_l = {largest:g}"
        yield _in_width(ladder, f"mean {at} ~ m^(-1/2)", MEAN)
        yield _in_width(ladder, f"fluctuation {at} ~ m^(-3/4)", FLUCTUATION)
    claim = "fluctuation of H(0,1) - H(0,1)^T ~ eta_l^(1/2), in powers of 1/eta_l"
    if 0 not in cells[ROUND].to_numpy():
        yield untested(claim, "fl-ntk/W-asymmetry", -0.5, "there are no cells of round 0", (ROUND,))
        return
    sizes, samples = _by_step_size(cells.sel({ROUND: 0}))
    note = "one local step; all widths, fluctuations times m^(3/4); about eta_l m^(1/2) neurons flip, of either sign"
    yield exponent(claim, "fl-ntk/W-asymmetry", -0.5, sizes, samples, axes=(ETA,), biased=False, note=note)


def _ladder(cells: Cells) -> StoredLadder:
    setup = Setup(eta_local=float(cells[ETA]), local_steps=STEPS)
    return StoredLadder.of(cells, problem(), replace(setup, rounds=max(1, 2 * int(cells[ROUND]))))


def _in_width(ladder: StoredLadder, claim: str, theory: float) -> Answer:
    def measure() -> Estimate:
        if theory == MEAN:
            return slope(ladder.sizes, ladder.split(DIFFERENCE)[0])
        return slope(ladder.sizes, ladder.fluctuations(DIFFERENCE), biased=False)

    return on_ladder(claim, "fl-ntk/W-asymmetry", theory, ladder, measure)


def _by_step_size(cells: Cells) -> tuple[np.ndarray, list[np.ndarray]]:
    """The values of 1/eta_l, and for each the fluctuations after the first local step of round 0, times m^(3/4)."""
    samples = []
    for eta in cells[ETA].to_numpy():
        ladder = _ladder(cells.sel({ETA: eta, STEP: 1}))
        scaled = [spread * m**0.75 for spread, m in zip(ladder.fluctuations(DIFFERENCE), ladder.sizes, strict=True)]
        samples.append(np.concatenate(scaled) if scaled else np.empty(0))
    return 1 / cells[ETA].to_numpy().astype(float), samples


def charts(cells: Cells) -> Iterable[Chart]:
    """The asymmetry against the local step at several step sizes, and against the width."""
    widest, first = int(cells[WIDTH].max()), int(cells[ROUND].min())
    norms = (cells[DIFFERENCE] ** 2).sum("pair", skipna=False) ** 0.5
    late, largest = norms.isel({STEP: slice(1, None)}), {ETA: cells[ETA].max(), STEP: cells[STEP].max()}
    of_steps = [
        points(f"eta_local = {eta:g}", late.sel({WIDTH: widest, ROUND: first, ETA: eta}), STEP)
        for eta in cells[ETA].to_numpy()[-3:]
    ]
    of_widths = [
        points(f"t = {number}", norms.sel({ROUND: number} | largest), WIDTH) for number in cells[ROUND].to_numpy()
    ]
    size = Label("RMS of |H(t,k) - H(t,k)^T|_F", log=True)
    at_last = f"k = {STEPS - 1}, eta_local = {float(cells[ETA].max()):g}"
    panels = (
        Panel(f"round {first}, width {widest}", Label("local step k"), size, tuple(of_steps)),
        Panel(at_last, WIDTHS, size, (*of_widths, *_slopes(of_widths[0]))),
    )
    yield Chart(
        "asymmetry",
        f"How far the Gram matrix of a local step is from symmetric: 0 at k = 0 (not on the axis), then growing "
        f"with k and eta_local, falling with the width. n = {N_SAMPLES}, d = {FEATURES}, {CLIENTS} clients; "
        f"{cells.sizes[SEED]} seeds; {BARS}. Lines: powers of the mean and the fluctuation, through the first point.",
        "Asymmetry against the local step, growing, and against the width, falling between two power laws.",
        panels,
    )


def _slopes(series: Series) -> tuple[Series, ...]:
    """Lines with the powers MEAN and FLUCTUATION of the width, through the first point of a series."""
    x, start = np.asarray(series.x), series.y[0]
    mean, spread = ((start * (x / x[0]) ** power).tolist() for power in (MEAN, FLUCTUATION))
    return (
        Series("m^(-1/2), as its mean (dashed)", "theory", series.x, mean),
        Series("m^(-3/4), as its fluctuation (dotted)", "bound", series.x, spread),
    )


STUDY = Study(
    name="asymmetry",
    question="How does the asymmetry of the Gram matrix H(t,k) grow with the local steps and fall with the width?",
    source="FL-NTK, Definition 3.2; docs/proofs/finite_width.md#powers-of-the-width",
    axes=(
        Axis(WIDTH, tuple(2**k for k in range(7, 14)), "hidden neurons m", option="widths", least=1),
        Axis(ETA, (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4), "step of the clients", above=0),
        Axis(ROUND, (0, 20), "round t", option="rounds", least=0),
        seeds(24, "of the initial network"),
    ),
    inner=(
        Axis(STEP, tuple(range(STEPS)), "local step k"),
        Axis("pair", tuple(f"{i},{j}" for i in range(N_SAMPLES) for j in range(N_SAMPLES)), "pair of samples i, j"),
    ),
    quantities=(Quantity(DIFFERENCE, "H(t,k) - H(t,k)^T", along=(STEP, "pair")),),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.02 + 2e-6 * point[WIDTH] * (1 + point[ROUND]),
    megabytes=lambda point: 450 + 0.0014 * point[WIDTH],
)
