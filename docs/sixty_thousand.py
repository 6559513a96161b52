"""Sixty thousand images: what the page *All of Fashion-MNIST, infinitely wide* measures, and its picture.

`python docs/sixty_thousand.py`
    draws sixty_thousand.svg anew from sixty_thousand.json, in which a number that was not kept is null.
`python docs/sixty_thousand.py keep [--tuned] RUN.json ...`
    adds to sixty_thousand.json the runs that `ntkfl limit --json RUN.json` wrote. The picture has the best tuned run of
    each method, and none of the others.
`python docs/sixty_thousand.py kernels RUN.npz PARTITION NAME ...`
    compares kernels of low rank with the exact rounds of FedAvg that `ntkfl limit --state RUN.npz` keeps.
`python docs/sixty_thousand.py apart RUN.npz OTHER.npz`
    says how far two such runs of the same data are apart, for example of one process and of a cluster.
"""

import argparse
import json
import re
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.pictures import as_bytes, themed
from experiments.studies.drawing import STYLE
from ntkfl import Problem, Setup, data, gram, kernel_regime

HERE = Path(__file__).parent
CURVES, PICTURE = HERE / "sixty_thousand.json", HERE / "sixty_thousand.svg"
ROWS = {"iid": "iid", "dirichlet:0.3": "dirichlet:0.3", "shards:2": "two label shards a client"}
COLUMNS = {"residual": "|r| / |y|", "train": "training accuracy", "test": "test accuracy"}
LOOKS = {  # colours that `themed` can replace by a shade for dark pages
    "fedavg": ("#0072b2", "o", "FedAvg"),
    "fedavg, server_rate": ("#0072b2", "s", "FedAvg, server rate 1.9"),
    "fedavgm": ("#d55e00", "D", "momentum .9 at the server"),
    "fedavgm, server_rate": ("#d55e00", "v", "momentum .9, server rate 3.7"),
    "scaffold": ("#8b3a8b", "^", "SCAFFOLD"),
    "scaffold, server_rate": ("#8b3a8b", "P", "SCAFFOLD, server rate 1.9"),
    "feddyn": ("#009e73", "X", "FedDyn"),
    "fedavg, tuned": ("#0072b2", "<", "FedAvg, tuned"),
    "fedavgm, tuned": ("#d55e00", ">", "momentum, tuned"),
    "scaffold, tuned": ("#8b3a8b", "*", "SCAFFOLD, tuned"),
    "feddyn, tuned": ("#009e73", "p", "FedDyn, tuned"),
}


def drawn(curves: list[dict]) -> Figure:
    """A picture with a row for each partition and a column for each measure, over the logarithm of the rounds."""
    rows = [name for name in ROWS if any(curve["partition"] == name for curve in curves)]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.0, 1.75 * len(rows) + 0.55), layout="constrained")
        panels = figure.subplots(len(rows), len(COLUMNS), sharex="col", sharey="col", squeeze=False)
        marks: dict[str, object] = {}
        for line, partition in zip(panels, rows, strict=True):
            own = shown([curve for curve in curves if curve["partition"] == partition])
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


def shown(curves: list[dict]) -> list[dict]:
    """The curves of a partition that are drawn.

    Of a method's tuned runs, this is only the run with the smallest residual.
    """
    best: dict[str, dict] = {}
    for curve in sorted(curves, key=lambda curve: -curve["residual"][-1]):
        if curve.get("tuned"):
            best[curve["method"]] = curve
    return [curve for curve in curves if not curve.get("tuned") or curve is best[curve["method"]]]


def _look(curve: dict) -> str:
    if curve.get("tuned"):
        return f"{curve['method']}, tuned"
    return curve["method"] + (", server_rate" if "server_rate" in curve["options"] else "")


def _panel(axes: Axes, curves: list[dict], measure: str) -> dict[str, object]:
    marks: dict[str, object] = {}
    for curve in curves:
        color, marker, name = LOOKS[_look(curve)]
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


def kept(curves: list[dict], runs: list[dict], tuned: bool = False) -> list[dict]:
    """The curves together with these runs of `ntkfl limit`; `tuned` says whether the runs were tuned.

    If there already is a curve for the settings of a run, the new curve has the run's rounds, and from the old curve
    the rounds that the run does not have.
    """
    rows = {_key(curve): curve for curve in curves}
    for run in runs:
        # the default partition has no name in the data
        (partition,) = re.findall(r"partition='([^']+)'", run["data"]) or ["iid"]
        curve = {"partition": partition, "method": run["method"], "options": run["options"]}
        curve["eta_local"] = float(f"{run['eta_local']:.3g}")
        if tuned:
            curve["tuned"] = True
        points = {point["round"]: point for point in run["points"] if point["round"]}
        if old := rows.get(_key(curve)):
            before = [dict(zip(COLUMNS, values, strict=True)) for values in zip(*map(old.get, COLUMNS), strict=True)]
            points = dict(zip(old["rounds"], before, strict=True)) | points
        curve["rounds"] = sorted(points)
        for name in COLUMNS:
            values = [points[t][name] for t in curve["rounds"]]
            curve[name] = [None if value is None else round(value, 4) for value in values]
        rows[_key(curve)] = curve
    return list(rows.values())


def _key(curve: dict) -> tuple[str, ...]:
    return curve["partition"], curve["method"], json.dumps(curve["options"], sort_keys=True)


def neurons(problem: Problem, count: int) -> gram.Features:
    """The kernel of `count` neurons.

    It is the share of neurons that both samples activate, times the inner product of the samples.
    """
    weights = np.random.default_rng(0).standard_normal((problem.d, count))

    def features(x: np.ndarray) -> np.ndarray:
        active = (x @ weights > 0) / np.sqrt(count)
        return (active[:, :, None] * x[:, None, :]).reshape(len(x), -1)

    return gram.Features(features, problem.d * count)


def directions(problem: Problem, count: int) -> gram.Features:
    """The kernel of `count` features 1[w'x > 0] v'x, each with its own w and v.

    The mean of the products of the features is the exact kernel.
    """
    weights, along = np.random.default_rng(0).standard_normal((2, problem.d, count))
    return gram.Features(lambda x: (x @ weights > 0) * (x @ along) / np.sqrt(count), count)


def landmarks(problem: Problem, count: int) -> gram.Features:
    """Nystrom's kernel with `count` landmarks."""
    return gram.nystroem(problem.x, count)


KERNELS: dict[str, Callable[[Problem, int], gram.Features]] = {
    "neurons": neurons,
    "directions": directions,
    "landmarks": landmarks,
}


def against_exact(problem: Problem, state: Path, names: list[str], rounds: tuple[int, ...] = (1, 10, 32)) -> Iterator:
    """The rows of the page's table: a row for the exact kernel, and one for each named kernel.

    Its columns are distances over |y|, largest differences, and accuracies. `names` has names such as "1000 landmarks".
    """
    with np.load(state, allow_pickle=False) as run:
        rounds = tuple(t for t in rounds if f"at_{t}" in run.files)
        exact = [problem.y - run[f"at_{t}"][0] for t in rounds]
    if not rounds:
        raise ValueError(f"{state} keeps no rounds one by one; run fewer rounds, such as --rounds 32")
    step = 1 / max(float(np.linalg.eigvalsh(gram.infinite(problem.x[owned]))[-1]) for owned in problem.members)
    yield ["kernel", *(f"{what} {t}" for what in ("off", "largest", "train", "test") for t in rounds), "processor"]
    yield ["exact", *[""] * (2 * len(rounds)), *(_right(y, problem.y) for y in exact), *[""] * (len(rounds) + 1)]
    for name in names:
        start, (count, kind) = _processor(), name.split()
        kernel, setup = KERNELS[kind](problem, int(count)), Setup(eta_local=step, local_steps=5)
        limit = kernel_regime(problem, setup, kernel, "fedavg", matrix_free=True)
        outputs, tested = limit.outputs(rounds), limit.predict(problem.x_test, rounds)
        off = [a - b for a, b in zip(outputs, exact, strict=True)]
        cells = [f"{np.linalg.norm(some) / np.linalg.norm(problem.y):.4f}" for some in off]
        cells += [f"{np.abs(some).max():.3f}" for some in off]
        cells += [_right(some, problem.y) for some in outputs] + [_right(some, problem.y_test) for some in tested]
        yield [name, *cells, f"{_processor() - start:.0f} s"]


def _right(outputs: np.ndarray, labels: np.ndarray) -> str:
    return f"{(outputs.argmax(axis=1) == labels.argmax(axis=1)).mean():.4f}"


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def apart(state: Path, other: Path) -> Iterator[tuple[int, float, float]]:
    """The largest differences of two stored runs, for each round that both have.

    For each round the values are the round, the difference of the residuals, and the difference of the coefficients.
    """
    with np.load(state, allow_pickle=False) as one, np.load(other, allow_pickle=False) as two:
        both = sorted(int(name[3:]) for name in one.files if name.startswith("at_") and name in two.files)
        for t in both:
            residual, moved = np.abs(one[f"at_{t}"] - two[f"at_{t}"]).max(axis=(1, 2))
            yield t, float(residual), float(moved)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    keeping = commands.add_parser("keep")
    keeping.add_argument("--tuned", action="store_true", help="the steps of these runs are tuned")
    keeping.add_argument("runs", nargs="+", type=Path)
    held = commands.add_parser("kernels")
    held.add_argument("state", type=Path)
    held.add_argument("partition")
    held.add_argument("names", nargs="+", metavar="NAME", help=f"as '1000 landmarks'; {', '.join(KERNELS)}")
    two = commands.add_parser("apart")
    two.add_argument("states", nargs=2, type=Path)
    given = parser.parse_args()
    if given.command == "kernels":
        problem = data.fashion_mnist(60_000, target="one-hot", clients=100, partition=given.partition, test=10_000)
        for cells in against_exact(problem, given.state, given.names):
            print("|", " | ".join(cells), "|", flush=True)
    elif given.command == "apart":
        for t, residual, moved in apart(*given.states):
            print(f"round {t}: residuals {residual:.3g}, coefficients {moved:.3g}")
    else:
        content = json.loads(CURVES.read_text(encoding="utf-8"))
        if given.command == "keep":
            runs = [json.loads(path.read_text(encoding="utf-8")) for path in given.runs]
            content = kept(
                content, [one for run in runs for one in (run if isinstance(run, list) else [run])], given.tuned
            )
            CURVES.write_text("[\n" + ",\n".join(map(json.dumps, content)) + "\n]\n", encoding="utf-8")
        PICTURE.write_bytes(themed(as_bytes(drawn(content), "svg", "sixty-thousand")))


if __name__ == "__main__":
    main()
