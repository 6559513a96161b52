"""Group connectivity: what does averaging K clients do to the loss, and how does that depend on K and the width?

Clients are trained apart from one start on their own arcs of the circle; the group barrier, the loss of their average
less the mean of their losses, is integrated over the circle without sampling. In the kernel regime it is minus the
variance between their predictions, whatever K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bounds.fedgucci.cases.group_ladder import FREQUENCIES, GroupLadder
from bounds.fedgucci.x3 import STATEMENTS
from bounds.ladders.slopes import NoSlope
from bounds.ladders.width_rate import Quantity as Power
from experiments.studies.answers import FEWEST_CELLS, FEWEST_SIZES, along, measured_exponent, samples, untested, upper
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.running.spread import BARS, mean
from experiments.studies.study import SEED, Answer, Axis, Measured, Point, Quantity, Study

if TYPE_CHECKING:
    import xarray

POINTS, ETA, STEPS = 12, 0.3, 8  # training points on the circle, step and local steps of every client
SOURCE = "fedgucci/X3"


def ladder_of(clients: int, width: int, seed: int) -> GroupLadder:
    """One group: the same points and the same target for every number of clients, who own an arc each.

    Args:
        clients: K. width: of the networks. seed: of this group's networks.
    """
    rng = np.random.default_rng([POINTS, 23])
    angles = np.sort(2 * np.pi * (np.arange(POINTS) + rng.uniform(0.2, 0.8, POINTS)) / POINTS)
    amplitudes = rng.normal(size=(FREQUENCIES, 2)) / 4
    owner = np.arange(POINTS) * clients // POINTS
    own = int(np.random.SeedSequence((seed, width, clients)).generate_state(1)[0])
    return GroupLadder(amplitudes, angles, owner, ETA, STEPS, (width,), (1,), own)


def measure(point: Point) -> Measured:
    """One group of clients, and its barrier in the kernel regime."""
    ladder = ladder_of(int(point["clients"]), int(point["width"]), int(point[SEED]))
    ((group,),) = ladder.groups
    return {"barrier": group.barrier, "gap": group.gap, "excess": group.excess, "limit": ladder.limit}


@dataclass(frozen=True, eq=False)
class StoredGroups:
    """The cells of one number of clients, which X3 reads as it reads a `GroupLadder`.

    sizes: the widths with cells. limit: of the barrier. cells: a variable a field of a group.
    """

    sizes: np.ndarray
    limit: float
    cells: xarray.Dataset

    @classmethod
    def of(cls, cells: xarray.Dataset) -> StoredGroups:
        """The widths that have cells, ascending."""
        ordered = cells.sortby("width").dropna("width", how="all")
        return cls(ordered.width.to_numpy().astype(float), float(cells.limit.mean()), ordered)

    def samples(self, name: str) -> list[np.ndarray]:
        """One field of every group there is, for each width.

        Raises:
            NoSlope: an infinite one.
        """
        found = samples(self.cells[name], "width")
        if any(np.isinf(row).any() for row in found):
            raise NoSlope(f"a slope needs finite values; {name} is infinite in a cell")
        return found

    @property
    def n_runs(self) -> int:
        """Number of groups."""
        return int(self.cells.barrier.count())


def summarise(cells: xarray.Dataset) -> tuple[Answer, ...]:
    """Three exponents of the width for each number of clients; the sign of the barrier in the limit."""
    found = []
    for clients in cells.clients.to_numpy():
        groups = StoredGroups.of(cells.sel(clients=clients))
        found += [_in_width(groups, power, int(clients)) for power in STATEMENTS[0].quantities]
    widest = cells.sel(width=cells.width.max())
    claim = "in wide networks averaging helps: barrier <= B_inf / 2 < 0"
    note = "B_inf is negative; what is shown is |B_inf|/2 over |B_m|"
    helped = upper(claim, SOURCE, -widest.limit.to_numpy() / 2, -widest.barrier.to_numpy(), note=note)
    return (*found, helped)


def _in_width(groups: StoredGroups, power: Power, clients: int) -> Answer:
    claim, theory = f"{power.name} ~ m^({power.exponent}), {clients} clients", float(power.exponent)
    if len(groups.sizes) < FEWEST_SIZES or groups.n_runs < FEWEST_CELLS:
        said = f"{groups.n_runs} groups of {len(groups.sizes)} widths; "
        return untested(claim, SOURCE, theory, f"{said}{FEWEST_CELLS} of {FEWEST_SIZES} or more are needed")
    return measured_exponent(claim, SOURCE, theory, lambda: power.exponent_on(groups))


def charts(cells: xarray.Dataset) -> tuple[Chart, ...]:
    """The barrier against K at several widths beside its limit, and its distance from that against the width."""
    clients = [float(k) for k in cells.clients.to_numpy()]
    widths = cells.width.to_numpy()
    chosen = sorted({int(widths[place]) for place in (0, len(widths) // 2, len(widths) - 1)})
    limit = mean(along(cells.limit, "clients"))[0]
    of_clients = [
        Series(f"width {width}", "measured", clients, *mean(along(cells.barrier.sel(width=width), "clients")))
        for width in chosen
    ]
    off = np.abs(cells.barrier - cells.limit)
    of_widths = tuple(
        Series(f"K = {k}", "measured", [float(m) for m in widths], *mean(along(off.sel(clients=k), "width")))
        for k in cells.clients.to_numpy()
    )
    return (
        Chart(
            "group-connectivity",
            f"Loss of the average of K clients less the mean of their losses, and its distance from the kernel "
            f"regime's; {POINTS} points on the circle split into arcs, {STEPS} local steps of {ETA:g}; "
            f"{cells.sizes[SEED]} seeds; {BARS.replace('bootstrap', 'Student')}.",
            "Group barrier against the number of clients, negative and close to its limit; its distance from that.",
            (
                Panel(
                    "group barrier",
                    Label("clients K", log=True),
                    Label("L(mean) - mean of L"),
                    (*of_clients, Series("kernel regime (dashed)", "theory", clients, limit)),
                ),
                Panel(
                    "distance from the kernel regime",
                    Label("width m", "neurons", log=True),
                    Label("mean |B_m - B_inf|", log=True),
                    of_widths,
                ),
            ),
        ),
    )


STUDY = Study(
    name="group-connectivity",
    question="What does averaging K clients do to the loss, by K and by the width?",
    source="FedGuCci, Definition 3.6 and Theorem 3.8; X3 of our notes",
    axes=(
        Axis("clients", (2, 4, 12), "clients K", least=2),
        Axis(
            "width",
            tuple(round(2 ** (8 + half / 2)) for half in range(9)),
            "hidden neurons m",
            option="widths",
            least=1,
        ),
        Axis(SEED, tuple(range(60)), "of the start", option="seeds"),
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
    seconds=lambda point: 0.02 + 6e-6 * int(point["width"]) * int(point["clients"]),
    megabytes=lambda point: 350 + 0.0014 * int(point["clients"]) * int(point["width"]),
)
