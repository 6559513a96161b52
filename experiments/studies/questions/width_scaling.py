"""Width scaling: with which powers of the width do the quantities of training approach the kernel regime?

A cell runs Algorithm 1 and its kernel regime, and all quantities come from these two runs. The labels are the network's
outputs before training plus a fixed vector r_0, y_m(0) + r_0. So all cells start with the same residual, and only the
width varies. No two cells share neurons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from bounds import Outcome
from bounds.fl_ntk import w
from bounds.fl_ntk.lazy_training import PATTERNS, REMAINDER, WEIGHTS, exact_map, printed_round_map, relative_remainder
from bounds.ladders.slopes import NoSlope, slope
from bounds.ladders.width_ladder import WidthLadder
from bounds.ladders.width_rate import Quantity as Power, WidthRate
from experiments.studies.answers import joined, on_ladder
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.random_seed import own_seed
from experiments.studies.running.stored_ladder import DEVIATION, OUTPUTS, WIDTH, StoredLadder, power_on
from experiments.studies.series import BARS, WIDTHS, measured_numbers, numbers_panel, root_mean_square
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from ntkfl import Estimate, Problem, Setup, data, gram

PANELS = {
    "weights": ("fl-ntk/W-movement", "fl-ntk/W-local-step", "fl-ntk/lazy-weights", "fl-ntk/W-frobenius-movement"),
    "activation patterns": ("fl-ntk/W-flips", "fl-ntk/W-jacobian", "fl-ntk/lazy-patterns", "fl-ntk/lazy-remainder"),
    "Gram matrix": ("fl-ntk/W-gram", "fl-ntk/W-eigenvalue", "fl-ntk/W-gram-drift", "fl-ntk/W-asymmetry"),
    "outputs": ("fl-ntk/W-outputs", "fl-ntk/W-linearised", "fl-ntk/W-prediction"),
}


def charts_of(
    ladder: StoredLadder, powers: Sequence[tuple[Power, str]], answers: Iterable[Answer]
) -> tuple[Chart, ...]:
    """The quantities against the width, and the exponents if any was measured.

    There are no figures unless some width has two networks or more.
    """
    if not ladder.widths:
        return ()
    charts = []
    panels = tuple(
        Panel(title, WIDTHS, Label("RMS over networks", log=True), series)
        for title, labels in PANELS.items()
        if (series := tuple(line for power, label in powers if label in labels for line in _lines(power, ladder)))
    )
    if panels:
        charts.append(
            Chart(
                "width-scaling",
                f"What training changes, against the width. n = {ladder.problem.n}, d = {ladder.problem.d}, "
                f"{ladder.problem.n_clients} clients, K = {ladder.setup.local_steps}, T = {ladder.setup.rounds}; "
                f"{ladder.n_runs} networks of {len(ladder.widths)} widths; {BARS}. Dashed: theory, with its own "
                "coefficient where it gives one, else through the widest networks.",
                "Log-log plots in four panels: every quantity falls with the width along its theory line.",
                panels,
            )
        )
    measured = [answer for answer in answers if answer.measured is not None]
    if measured:
        charts.append(_exponents(ladder, measured))
    return tuple(charts)


def _lines(power: Power, ladder: StoredLadder) -> tuple[Series, ...]:
    try:
        samples = [np.atleast_1d(values) for values in power.values(ladder)]
    except NoSlope:
        return ()
    sizes = ladder.sizes
    value, low, high = root_mean_square(samples)
    exponent = float(power.exponent)
    scale = value[-1] / sizes[-1] ** exponent if power.coefficient is None else power.coefficient(ladder)
    theory = (scale * sizes**exponent).tolist()
    return (
        Series(power.name, "measured", sizes.tolist(), value, low, high),
        Series(f"m^({power.exponent})", "theory", sizes.tolist(), theory, of=power.name),
    )


def _exponents(ladder: StoredLadder, measured: Sequence[Answer]) -> Chart:
    names = [answer.claim.split(" ~ ")[0] for answer in measured]
    at = [float(place) for place in range(len(names))]
    theory = [np.nan if answer.theory is None else answer.theory for answer in measured]
    series = (
        measured_numbers("measured", at, [answer.measured for answer in measured]),
        Series("theory", "theory", at, theory),
    )
    return Chart(
        "width-exponents",
        f"Every power of the width, measured over {len(ladder.widths)} widths from {min(ladder.widths)} to "
        f"{max(ladder.widths)} with {ladder.n_runs} networks; bars: 99% intervals with finite-width bias.",
        "Measured exponents with intervals beside those of theory, one quantity in each line.",
        (numbers_panel("exponents of the width", names, series),),
    )


SETUP = Setup(eta_local=0.4, local_steps=3, rounds=60)
N_SAMPLES, FEATURES, CLIENTS = 6, 4, 3
NUMBERS = {
    "movement": "max_r |u_r(T) - u_r(0)|",
    "movement_limit": "its leading order, max_r |X^T (c_T * s_r)| / sqrt m over the initial patterns s_r",
    "step": "max_t max_r |u_r(t+1) - u_r(t)|",
    "local_step": "max over c, r, k of |w_{k,c,r}(t) - u_r(t)| at the middle round",
    "total_movement": "|U(T) - U(0)|_F",
    "total_movement_limit": "|U(T) - U(0)|_F at infinite width",
    "frobenius_movement": "distance of |U(T) - U(0)|_F from its value at infinite width",
    "flips": "share of the activation patterns that differ after round T",
    "jacobian": "|J(t,k) - J(0,0)|_F at the middle round",
    "complement": "max_k |H(t,k)^perp|_F at the middle round",
    "remainder": "|v_2| / |y - y(t)| at the middle round",
    "outputs": "max_t |y_m(t) - y_inf(t)|",
    "prediction": "RMS over test points of f(x, T) less its limit",
}
MATRICES = {
    "gram_drift": "H(T) - H(0)",
    "local_gram_drift": "H(t,k) - H(0) at the last local step of the middle round",
    "asymmetry": "H(t,k) - H(t,k)^T at the last local step of the middle round",
}
PRINTED, EXACT = "remainder_over_printed_map", "remainder_over_exact_map"
REMAINDERS = {
    PRINTED: "(sum_t |xi(t)|^2 / sum_t |r(t)|^2)^(1/2), xi over I - rho H_inf",
    EXACT: "(sum_t |xi(t)|^2 / sum_t |r(t)|^2)^(1/2), xi over M = I - (eta_g/N) H_inf P",
}
RATES: tuple[WidthRate, ...] = (*w.RATES, WEIGHTS, PATTERNS, REMAINDER)


@cache
def problem() -> Problem:
    """The data of every cell, with r_0 as labels."""
    return data.sphere(N_SAMPLES, FEATURES, seed=0, clients=CLIENTS, labels="uniform")


def measure(point: Point) -> Measured:
    """The quantities of a run whose exponents are in the catalogue of statements, and two remainders of Eq (18)."""
    width = point[WIDTH]
    ladder = WidthLadder(problem(), SETUP, (width,), (1,), own_seed(point[SEED], width))
    ((statistics,),), ((run,),) = ladder.statistics, ladder.runs
    measured: dict[str, float | Estimate | list[float]] = {name: float(getattr(statistics, name)) for name in NUMBERS}
    arrays = {name: getattr(statistics, name) for name in (*MATRICES, "linearised")}
    arrays |= {DEVIATION: run.initial_gram.value - gram.infinite(problem().x), OUTPUTS: run.trajectory.outputs[0]}
    measured |= {name: array.ravel().tolist() for name, array in arrays.items()}
    measured[PRINTED] = relative_remainder(run, printed_round_map(ladder))
    measured[EXACT] = relative_remainder(run, exact_map(ladder))
    return measured


def powers() -> list[tuple[Power, str]]:
    """Every quantity whose exponent is in the catalogue of statements, with the statement's id."""
    return [(power, rate.id) for rate in RATES for power in rate.quantities]


def summarise(cells: Cells) -> Iterable[Answer]:
    """An answer for each exponent in the order of the catalogue, and then two answers about Eq (18).

    The first of these two answers takes Eq (18) with the exact matrix of a round, the second takes Eq (18) as printed.
    """
    ladder = StoredLadder.of(cells, problem(), SETUP)
    for power, label in powers():
        yield power_on(ladder, power, label)
    exact, printed = (
        on_ladder(f"remainder xi of a round over {over} ~ m^(-1/2)", "fl-ntk/Eq18", -0.5, ladder, measure)
        for over, measure in (
            ("M = I - (eta_g/N) H_inf P", partial(_remainder, EXACT, ladder)),
            ("I - rho H_inf", partial(_remainder, PRINTED, ladder)),
        )
    )
    note = joined(printed.note, "as printed: for K > 1 a part of xi does not fall with m")
    yield exact
    yield replace(printed, note=note, recorded=Outcome.VIOLATED)


def _remainder(name: str, ladder: StoredLadder) -> Estimate:
    return slope(ladder.sizes, ladder.samples(name))


def charts(cells: Cells) -> Iterable[Chart]:
    """The quantities against the width, and all measured exponents beside the exponents of theory."""
    return charts_of(StoredLadder.of(cells, problem(), SETUP), powers(), summarise(cells))


STUDY = Study(
    name="width-scaling",
    question="With which power of the width does everything in training approach the kernel regime?",
    source="FL-NTK, sections 3.2 and 6, Eq (18); docs/proofs/finite_width.md#powers-of-the-width",
    axes=(
        Axis(WIDTH, tuple(2**k for k in range(6, 15)), "hidden neurons m", option="widths", least=1),
        seeds(8, "of the initial network"),
    ),
    inner=(
        Axis("pair", tuple(f"{i},{j}" for i in range(N_SAMPLES) for j in range(N_SAMPLES)), "pair of samples i, j"),
        Axis("sample", tuple(range(N_SAMPLES)), "training sample"),
        Axis(
            "output",
            tuple(f"{t},{i}" for t in range(SETUP.rounds + 1) for i in range(N_SAMPLES)),
            "round t and training sample i",
        ),
    ),
    quantities=(
        *(Quantity(name, says) for name, says in (NUMBERS | REMAINDERS).items()),
        *(Quantity(name, says, along=("pair",)) for name, says in MATRICES.items()),
        Quantity(DEVIATION, "H(0) - H_inf", along=("pair",)),
        Quantity(OUTPUTS, "f(0)", along=("sample",)),
        Quantity("linearised", "y_m(t) - y_lin(t), y_lin the kernel regime of H(0)", along=("output",)),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.4 + 4e-5 * point[WIDTH],
    megabytes=lambda point: 450 + 0.0014 * point[WIDTH],
)
