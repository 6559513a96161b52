"""Group connectivity: how does averaging the models of K clients change the loss, for each K and width?

Clients are trained separately from one start, each on its own arc of the circle. The group barrier is the loss of the
averaged model less the mean of the clients' losses. The losses are integrated over the circle without sampling. In the
kernel regime the group barrier is minus the variance between the clients' predictions, for every K.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bounds.fedgucci.cases.group_ladder import FREQUENCIES, GroupLadder
from bounds.fedgucci.powers import STATEMENTS
from bounds.ladders.rungs import Rungs
from bounds.ladders.slopes import NoSlope
from experiments.studies.answers import samples, upper
from experiments.studies.chart import Chart, Label, Panel
from experiments.studies.random_seed import own_seed
from experiments.studies.running.stored_ladder import power_on
from experiments.studies.series import STUDENT_BARS, WIDTHS, line, mean, points
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds

# the circle has POINTS training points, and every client takes STEPS local steps of size ETA
POINTS, ETA, STEPS = 12, 0.3, 8
MANY_WIDTHS = tuple(round(2 ** (8 + half / 2)) for half in range(9))
SOURCE = "fedgucci/X3"


def ladder_of(clients: int, width: int, seed: int) -> GroupLadder:
    """One group of clients, each of which owns an arc of the circle.

    The points and the target are the same for every number of clients.
    """
    rng = np.random.default_rng([POINTS, 23])
    angles = np.sort(2 * np.pi * (np.arange(POINTS) + rng.uniform(0.2, 0.8, POINTS)) / POINTS)
    amplitudes = rng.normal(size=(FREQUENCIES, 2)) / 4
    owner = np.arange(POINTS) * clients // POINTS
    networks = own_seed(seed, width, clients, bits=32)
    return GroupLadder(amplitudes, angles, owner, ETA, STEPS, (width,), (1,), networks)


def measure(point: Point) -> Measured:
    """The numbers of one group of clients, and its barrier in the kernel regime."""
    ladder = ladder_of(point["clients"], point["width"], point[SEED])
    ((group,),) = ladder.groups
    return {"barrier": group.barrier, "gap": group.gap, "excess": group.excess, "limit": ladder.limit}


@dataclass(frozen=True, eq=False)
class StoredGroups(Rungs):
    """The cells with one number of clients, in the form of a `GroupLadder`, as statement fedgucci/X3 needs them.

    `widths` are the widths with cells, and `counts` their numbers of groups. `limit` is the limit of the barrier.
    `cells` has a variable for each field of a group.
    """

    widths: tuple[int, ...]
    counts: tuple[int, ...]
    limit: float
    cells: Cells

    @classmethod
    def of(cls, cells: Cells) -> StoredGroups:
        """The stored groups of these cells, with ascending widths."""
        ordered = cells.sortby("width").dropna("width", how="all")
        widths, counts = (tuple(column.to_numpy().tolist()) for column in (ordered.width, ordered.barrier.count(SEED)))
        return cls(widths, counts, float(cells.limit.mean()), ordered)

    def samples(self, name: str) -> list[np.ndarray]:
        """One field of every group, for each width.

        Raises:
            NoSlope: a value is infinite.
        """
        rows = samples(self.cells[name], "width")
        if any(np.isinf(row).any() for row in rows):
            raise NoSlope(f"a slope needs finite values; {name} is infinite in a cell")
        return rows


def summarise(cells: Cells) -> Iterable[Answer]:
    """Three powers of the width for each number of clients, and the sign of the barrier in wide networks."""
    for clients in cells.clients.to_numpy():
        groups = StoredGroups.of(cells.sel(clients=clients))
        for power in STATEMENTS[0].quantities:
            yield power_on(groups, power, SOURCE, f", {clients} clients")
    widest = cells.sel(width=cells.width.max())
    claim = "in wide networks averaging helps: barrier <= B_inf / 2 < 0"
    note = "B_inf is negative; what is shown is |B_inf|/2 over |B_m|"
    yield upper(claim, SOURCE, -widest.limit / 2, -widest.barrier, note=note)


def charts(cells: Cells) -> Iterable[Chart]:
    """The barrier and its limit against K at several widths, and the distance from the limit against the width."""
    widths = cells.width.to_numpy()
    chosen = sorted({int(widths[place]) for place in (0, len(widths) // 2, len(widths) - 1)})
    of_clients = (
        *(points(f"width {width}", cells.barrier.sel(width=width), "clients", mean) for width in chosen),
        line("kernel regime (dashed)", cells.limit, "clients", over=mean),
    )
    off = np.abs(cells.barrier - cells.limit)
    of_widths = tuple(points(f"K = {k}", off.sel(clients=k), "width", mean) for k in cells.clients.to_numpy())
    yield Chart(
        "group-connectivity",
        f"Group barrier: the loss of the averaged model of K clients less the mean of their losses. Right: the "
        f"barrier's distance from its value in the kernel regime. {POINTS} points on the circle split into arcs, "
        f"{STEPS} local steps of {ETA:g}; {cells.sizes[SEED]} seeds; {STUDENT_BARS}.",
        "Group barrier against the number of clients, negative and close to its limit; its distance from the limit.",
        (
            Panel("group barrier", Label("clients K", log=True), Label("L(mean) - mean of L"), of_clients),
            Panel("distance from the kernel regime", WIDTHS, Label("mean |B_m - B_inf|", log=True), of_widths),
        ),
    )


STUDY = Study(
    name="group-connectivity",
    question="What does averaging K clients do to the loss, by K and by the width?",
    source="FedGuCci, Definition 3.6 and Theorem 3.8; X3 (docs/proofs/connectivity.md#groups-of-wide-networks)",
    axes=(
        Axis("clients", (2, 4, 12), "clients K", least=2),
        Axis("width", MANY_WIDTHS, "hidden neurons m", option="widths", least=1),
        seeds(60, "of the start"),
    ),
    quantities=(
        Quantity("barrier", "group barrier: L(FMA) - mean_k L(w_k), squared loss over the circle"),
        Quantity("gap", "rms over the circle of f_FMA - f_WENS"),
        Quantity("excess", "L(FMA) - L(WENS)"),
        Quantity("limit", "B_inf = -E_x Var_k f_k at infinite width"),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.02 + 6e-6 * point["width"] * point["clients"],
    megabytes=lambda point: 350 + 0.0014 * point["clients"] * point["width"],
)
