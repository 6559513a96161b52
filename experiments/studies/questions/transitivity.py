"""Transitivity: how large is the barrier between two networks that are both close to one anchor?

Networks are drawn in the cube of side d around an anchor, as in Theorem 3.5 of FedGuCci. Gaps and barriers are exact.
The gap is the supremum over alpha of E_x |z_x(alpha)|, where z_x(alpha) = f_alpha(x) - alpha f_1(x) - (1 - alpha)
f_2(x). Here f_1 and f_2 are the networks, and f_alpha has alpha times the weights of f_1 plus 1 - alpha times those of
f_2. There are two kinds of anchors. If the rows of the anchor's first layer are on the sphere, the barrier scales like
d^2; if its first layer U_anc is 0, the barrier scales like d. The theorem's bound scales like d.
"""

from collections.abc import Iterable

from bounds.cases.cube_networks import CubeFamily
from bounds.cases.network_pair import NetworkPair
from bounds.fedgucci.cube_bounds import R1
from bounds.fedgucci.premises.cube_symbols import AT_TRUE_SIDE, SURE
from bounds.fedgucci.premises.cube_terms import barrier, cube_constants, gap
from bounds.formula import evaluate
from experiments.studies.answers import errors, exponent, samples, upper
from experiments.studies.chart import Chart, Label, Panel
from experiments.studies.random_seed import own_seed
from experiments.studies.series import BARS, line, points
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from ntkfl.connectivity.barrier import largest_gap

FEATURES, INPUTS, DELTA = 4, 500, 0.1
ORIGIN, SPHERE = "origin", "sphere"
POWERS = {SPHERE: 2.0, ORIGIN: 1.0}
BOUNDS = {
    "data_bound": ("R2, from one pass over the data", "fedgucci/R2"),
    "moment_bound": ("R1, with probability .9", "fedgucci/R1"),
    "sure_bound": ("the sure bound", "fedgucci/sure"),
    "theorem": ("Theorem 3.5 at d, with probability .9", "fedgucci/F9"),
}
# the probability with which a bound may fail; a bound without an entry always holds
FAILURE = {"moment_bound": DELTA, "theorem": DELTA}


def measure(point: Point) -> Measured:
    """Gaps, barrier and bounds of two networks and their anchor.

    No two cells share a draw.
    """
    side, units, rows = point["side"], point["h"], point["anchor"]
    seed = own_seed(point[SEED], units, side, rows == ORIGIN, bits=32)
    drawn = CubeFamily(h=units, l=FEATURES, side=side, rows="ball", n=INPUTS, at_origin=rows == ORIGIN, delta=DELTA)
    case = drawn.case(seed)
    first, second = case.networks
    pair, known = NetworkPair(first, second, case.x, case.y, case.loss), cube_constants(case)
    return {
        "gap": gap(case),
        "barrier": barrier(case),
        "to_anchor": largest_gap(first, case.anchor, case.x).value,
        "data_bound": float(pair.bilinear_term.value / 4 + pair.kink_term.value),
        "moment_bound": float(evaluate(R1, known).value),
        "sure_bound": float(evaluate(SURE, known).value),
        "theorem": float(evaluate(AT_TRUE_SIDE, known).value),
    }


def summarise(cells: Cells) -> Iterable[Answer]:
    """Every bound in every cell, and the power of d for each kind of anchor."""
    unsure = errors(cells, "gap")
    claim = "barrier of the absolute loss <= sup over alpha of E_x |z_x(alpha)|"
    yield upper(claim, "fedgucci/F9, Eq (36)", cells.barrier, cells.gap, errors(cells, "barrier"), unsure)
    for name, (says, source) in BOUNDS.items():
        claim = f"sup over alpha of E_x |z_x(alpha)| <= {says}"
        yield upper(claim, source, cells.gap, cells[name], unsure, failure=FAILURE.get(name))
    smallest = cells.h.min()
    for anchor in map(str, cells.anchor.to_numpy()):
        at, power = cells.gap.sel(anchor=anchor, h=smallest), POWERS[anchor]
        claim = f"the gap between two networks ~ d^{power:g}, anchor rows: {anchor}, in powers of 1/d"
        note = "the theorem's right side is of first order in d"
        sizes = 1 / cells.side.to_numpy().astype(float)
        rows = samples(at, "side")
        yield exponent(claim, "fedgucci/X5", -power, sizes, rows, axes=("side",), biased=False, note=note)


def charts(cells: Cells) -> Iterable[Chart]:
    """The gap and its bounds against the side d, with a panel for each kind of anchor."""
    units, panels = int(cells.h.min()), []
    for anchor in cells.anchor.to_numpy():
        at = cells.sel(anchor=anchor, h=units)
        series = (
            points("between two networks", at.gap, "side"),
            line("R2", at.data_bound, "side", "bound", of="between two networks"),
            points("from one to the anchor", at.to_anchor, "side"),
            line("sure bound (dashed)", at.sure_bound, "side"),
            line("Theorem 3.5 (dotted)", at.theorem, "side", "bound"),
        )
        x, y = Label("side d of the cube", log=True), Label("sup over alpha of E_x |z|", log=True)
        panels.append(Panel(f"anchor rows: {anchor}", x, y, series))
    yield Chart(
        "transitivity",
        f"Gap of the outputs along the segment between two networks of one cube, and its bounds; h = {units}, "
        f"{FEATURES} features, n = {INPUTS} inputs in the ball, delta = {DELTA}; {cells.sizes[SEED]} seeds; "
        f"{BARS}.",
        "Gap against side of the cube: second order for rows on the sphere, first at the origin; bounds above.",
        tuple(panels),
    )


STUDY = Study(
    name="transitivity",
    question="How large is the barrier between two networks that are both close to one anchor?",
    source="FedGuCci, Theorem 3.5; R1 and R2 (docs/proofs/connectivity.md#two-networks-of-a-cube), X5 "
    "(docs/proofs/connectivity.md#powers-of-the-side)",
    axes=(
        Axis("h", (8, 32), "hidden units", least=1),
        Axis("side", tuple(0.1 * 2.0 ** (-k / 2) for k in range(9)), "side d of the cube", above=0),
        Axis("anchor", (SPHERE, ORIGIN), "rows of U_anc: uniform on the unit sphere, or 0"),
        seeds(40, "of anchor, networks and inputs"),
    ),
    quantities=(
        Quantity("gap", "sup over alpha of E_x |z_x(alpha)| between the networks"),
        Quantity("barrier", "barrier of the absolute loss between the networks"),
        Quantity("to_anchor", "gap between the first network and the anchor"),
        *(Quantity(name, f"right side of {says}") for name, (says, _) in BOUNDS.items()),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.02 + 0.001 * point["h"],
    megabytes=lambda point: 350,
)
