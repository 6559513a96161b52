"""Draw the curves of sixty thousand images: `python docs/sixty_thousand.py` writes sixty_thousand.svg anew.

sixty_thousand.json has what `ntkfl limit` measured; a number that was not kept is null.
"""

import json
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.pictures import as_bytes, themed
from experiments.studies.drawing import STYLE

HERE = Path(__file__).parent
ROWS = {"iid": "iid", "dirichlet:0.3": "dirichlet:0.3", "shards:2": "two label shards a client"}
COLUMNS = {"residual": "|r| / |y|", "train": "training accuracy", "test": "test accuracy"}
LOOKS = {  # colours that `themed` has a dark shade of
    "fedavg": ("#0072b2", "o", "FedAvg"),
    "fedavg, server_rate": ("#0072b2", "s", "FedAvg, server rate 1.9"),
    "fedavgm": ("#d55e00", "D", "momentum .9 at the server"),
    "fedavgm, server_rate": ("#d55e00", "v", "momentum .9, server rate 3.7"),
    "scaffold": ("#8b3a8b", "^", "SCAFFOLD"),
    "scaffold, server_rate": ("#8b3a8b", "P", "SCAFFOLD, server rate 1.9"),
    "feddyn": ("#009e73", "X", "FedDyn"),
}


def drawn(curves: list[dict]) -> Figure:
    """A row for each partition, a column for each measure, the rounds by their logarithm."""
    rows = [name for name in ROWS if any(curve["partition"] == name for curve in curves)]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.0, 1.75 * len(rows) + 0.55), layout="constrained")
        panels = figure.subplots(len(rows), len(COLUMNS), sharex="col", sharey="col", squeeze=False)
        marks: dict[str, object] = {}
        for line, partition in zip(panels, rows, strict=True):
            own = [curve for curve in curves if curve["partition"] == partition]
            for axes, measure in zip(line, COLUMNS, strict=True):
                marks |= _panel(axes, own, measure)
            line[0].set_ylabel(ROWS[partition])
        for axes, name in zip(panels[0], COLUMNS.values(), strict=True):
            axes.set_title(name)
        for axes in panels[-1]:
            axes.set_xlabel("round")
        names = [look[2] for look in LOOKS.values() if look[2] in marks]
        figure.legend([marks[name] for name in names], names, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _panel(axes: Axes, curves: list[dict], measure: str) -> dict[str, object]:
    marks: dict[str, object] = {}
    for curve in curves:
        color, marker, name = LOOKS[curve["method"] + (", server_rate" if "server_rate" in curve["options"] else "")]
        points = [
            (t, value) for t, value in zip(curve["rounds"], curve[measure], strict=True) if t and value is not None
        ]
        look = {"color": color, "marker": marker, "markersize": 3, "linewidth": 1}
        marks[name] = axes.plot(*zip(*points, strict=True), **look)[0] if points else axes.plot([], [], **look)[0]
    axes.set_xscale("log")
    if measure == "residual":
        axes.set_yscale("log")
        axes.set_yticks([0.3, 0.4, 0.6, 0.8, 1.0], ["0.3", "0.4", "0.6", "0.8", "1"])
        axes.minorticks_off()
    return marks


if __name__ == "__main__":
    content = json.loads((HERE / "sixty_thousand.json").read_text(encoding="utf-8"))
    (HERE / "sixty_thousand.svg").write_bytes(themed(as_bytes(drawn(content), "svg", "sixty-thousand")))
