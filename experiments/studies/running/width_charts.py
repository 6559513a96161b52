"""The figures of the study of width scaling: quantities against the width with their theory, and all exponents."""

from collections.abc import Iterable, Sequence

import numpy as np

from bounds.ladders.slopes import NoSlope
from bounds.ladders.width_rate import Quantity as Power
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.running.stored_ladder import StoredLadder
from experiments.studies.series import BARS, WIDTHS, measured_numbers, numbers_panel, root_mean_square
from experiments.studies.study import Answer

PANELS = {
    "weights": ("fl-ntk/W-movement", "fl-ntk/W-local-step", "fl-ntk/lazy-weights", "fl-ntk/W-frobenius-movement"),
    "activation patterns": ("fl-ntk/W-flips", "fl-ntk/W-jacobian", "fl-ntk/lazy-patterns", "fl-ntk/lazy-remainder"),
    "Gram matrix": ("fl-ntk/W-gram", "fl-ntk/W-eigenvalue", "fl-ntk/W-gram-drift", "fl-ntk/W-asymmetry"),
    "outputs": ("fl-ntk/W-outputs", "fl-ntk/W-linearised", "fl-ntk/W-prediction"),
}


def charts_of(
    ladder: StoredLadder, powers: Sequence[tuple[Power, str]], answers: Iterable[Answer]
) -> tuple[Chart, ...]:
    """Two figures, if some width has two networks; the second only if an exponent was found."""
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
        "Measured exponents with intervals beside those of theory, one quantity a line.",
        (numbers_panel("exponents of the width", names, series),),
    )
