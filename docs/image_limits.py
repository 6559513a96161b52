"""Compare networks with their limit over the rounds: `python docs/image_limits.py`.

Without arguments the script draws image_limits.svg anew from the rows of image_limits.json, and writes their tables
into *All of Fashion-MNIST, infinitely wide*. Each row is a result of the study `image-limits`. The next command
measures the named rows, one after the other, and keeps each row as soon as it is measured. A row with two seeds has the
distance between two networks:

    python docs/image_limits.py --measure "fedavg 10000 1 4096 0" "fedavg 2000 1 1024 0,1"

A row is named by METHOD IMAGES STEP WIDTH SEEDS, with the step as a share of 1 / max_c |H_cc|. A row is stored anew
after each examined round, so that a run may be stopped. `--rounds 320` goes on to round 320. `--memmap FILE` keeps the
limit's tiles (blocks of its kernel matrix) in a file. A row with all 60,000 images needs this option. `--float32`
trains the networks in single precision.
"""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import stored_rows
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from stored_rows import Row

from experiments.pictures import as_bytes, themed
from experiments.studies.drawing import STYLE
from experiments.studies.questions.image_limits import METHODS, ROUNDS, compared, limit, problem, trained

HERE = Path(__file__).parent
ROWS, PICTURE = HERE / "image_limits.json", HERE / "image_limits.svg"
PAGE = HERE / "pages" / "infinitely_wide.py"
POINT = "method", "images", "step", "width", "seed"
NAMES = {"fedavg": "FedAvg", "fedavgm": "momentum .9", "scaffold": "SCAFFOLD"}
ALL_ROUNDS = (*ROUNDS, 46, 68, 100, 150, 220, 320)
COLUMNS = len(METHODS)
# each of these colours has a shade for dark pages
SHOWN, SHADES = (1, 10, 32), ("#009e73", "#0072b2", "#d55e00", "#8b3a8b")
HEADS = (
    "| images | method | width | networks | rounds | off the limit | linearisation off the limit "
    "| network off its linearisation |",
    "| images | method | width | test accuracy of the networks | of their linearisations | of the limit |",
    "| images | method | width | two networks apart | share of the squared distance that both have |",
    "| images | method | width | step | round | moved | off the limit | linearisation off the limit "
    "| network off its linearisation |",
)


def point(words: str) -> Row:
    """The row that the words "METHOD IMAGES STEP WIDTH SEEDS" name.

    Raises:
        ValueError: the words name no row.
    """
    try:
        method, images, step, width, seeds = words.split()
        seed = [int(some) for some in seeds.split(",")]
        row: Row = {"method": method, "images": int(images), "step": float(step), "width": int(width), "seed": seed}
        if method not in METHODS or len(seed) > 2 or row["images"] < 1 or row["width"] < 1 or not row["step"] > 0:
            raise ValueError(f"methods are {', '.join(METHODS)}, seeds one or two, all numbers positive")
    except ValueError as error:
        raise ValueError(f"{words!r} is no row ({error}); write it like 'fedavg 10000 1 4096 0'") from None
    return row


def growing(of: Row, rounds: tuple[int, ...], memmap: Path | None, dtype: str = "float64") -> Iterator[Row]:
    """The study's result at this point after each of these rounds.

    The distance of two networks is given only at the end.

    Each result has the seconds of processor, and the largest memory that the process has held so far, in GB.
    """
    begun = time.process_time()
    if len(of["seed"]) == 1:
        done: dict[str, list[float]] = {}
        for after in compared(of | {"seed": of["seed"][0]}, rounds, memmap, dtype):
            for name, value in after.items():
                done.setdefault(name, []).append(round(value, 6))
            yield of | {"rounds": list(rounds[: len(done[name])])} | done | used(begun) | {"dtype": dtype}
    else:
        quantities = apart(of, rounds, memmap, dtype)
        rounded = {name: [round(value, 6) for value in values] for name, values in quantities.items()}
        yield of | {"rounds": list(rounds)} | rounded | used(begun) | {"dtype": dtype}


def used(begun: float) -> dict[str, float]:
    """The seconds of processor since `begun`, and the largest memory that this process has held, in GB."""
    memory = stored_rows.peak_gb()
    return {"seconds": round(time.process_time() - begun), "gigabytes": round(memory, 2)}


def apart(of: Row, rounds: tuple[int, ...], memmap: Path | None, dtype: str) -> dict[str, list[float]]:
    """The distance |y_a - y_b| / |y| of two networks, and (y_a - y_inf).(y_b - y_inf) / |y|^2.

    The second number is 0 on average if the two differences y_a - y_inf and y_b - y_inf are pure chance.
    """
    exact = limit(of["method"], of["images"], of["step"], rounds, memmap)
    size = float(np.linalg.norm(problem(of["images"]).y))
    runs = (trained(of | {"seed": seed}, exact.eta_local, rounds, False, dtype) for seed in of["seed"])
    far = [(a - known, b - known) for (a, _), (b, _), known in zip(*runs, exact.outputs, strict=True)]
    distances = [float(np.linalg.norm(a - b)) / size for a, b in far]
    return {"apart": distances, "common": [float(np.vdot(a, b)) / size**2 for a, b in far]}


def kept() -> list[Row]:
    """The rows that were measured."""
    return stored_rows.kept(ROWS) if ROWS.exists() else []


def keep(row: Row) -> None:
    """Add the row to the file. It replaces a row of the same point."""
    stored_rows.keep(ROWS, kept(), row, POINT, order)


def order(row: Row) -> tuple:
    """The key by which the rows of the tables are sorted."""
    return row["images"], -row["step"], list(METHODS).index(row["method"]), row["width"], len(row["seed"]), row["seed"]


def short(value: float, form: str = ".3f") -> str:
    """A number as the tables show it, without a zero before the point."""
    return f"{value:{form}}".replace("0.", ".", 1)


def values(rows: Sequence[Row], name: str, t: int) -> list[float]:
    """The values of a quantity after round t, for the networks whose rows have round t."""
    return [row[name][row["rounds"].index(t)] for row in rows if t in row["rounds"]]


def shown(rows: Sequence[Row]) -> list[int]:
    """The rounds that tables show for these networks.

    If the networks were trained for fewer rounds, their last round is shown too.
    """
    last = max(map(_rounds, rows))
    return sorted({t for t in SHOWN if t <= last} | {min(last, SHOWN[-1])})


def over_rounds(rows: Sequence[Row], name: str) -> str:
    """The means of a quantity over these networks, after each of the rounds that tables show."""
    there = [own for t in shown(rows) if (own := values(rows, name, t))]
    return ", ".join(short(float(np.mean(own))) for own in there)


def groups(rows: Iterable[Row], count: int) -> dict[tuple, list[Row]]:
    """The rows with this number of seeds, in groups of rows that differ only in the seeds."""
    of: dict[tuple, list[Row]] = {}
    for row in sorted(rows, key=order):
        if len(row["seed"]) == count:
            of.setdefault(tuple(row[name] for name in POINT[:-1]), []).append(row)
    return of


def tables(rows: Sequence[Row]) -> list[list[str]]:
    """The lines of the tables below their heads."""
    alone, pairs = groups(rows, 1), groups(rows, 2)
    little = {(method, images, width) for method, images, step, width in alone if step != 1}
    distances, accuracies, two, small = list[str](), list[str](), list[str](), list[str]()
    for (method, images, step, width), own in alone.items():
        head = f"| {images:,} | {NAMES[method]} | {width}"
        if step == 1:
            cells = [over_rounds(own, name) for name in ("outputs", "linear", "bent")]
            distances.append(f"{head} | {len(own)} | {max(map(_rounds, own))} | {' | '.join(cells)} |")
            shares = [over_rounds(own, name) for name in ("accuracy_linear", "accuracy_limit")]
            accuracies.append(f"{head} | {_range(own)} | {' | '.join(shares)} |")
        if (method, images, width) in little:
            for t in (SHOWN[0], SHOWN[-1]):
                moved, *far = (np.mean(values(own, name, t)) for name in ("moved", "outputs", "linear", "bent"))
                cells = [short(value) for value in (moved, *np.array(far) / moved)]
                small.append(f"{head} | {step:g} | {t} | {' | '.join(cells)} |")
    for (method, images, step, width), own in pairs.items():
        single = alone[method, images, step, width]
        off = [np.mean(np.square(values(single, "outputs", t))) for t in SHOWN]
        both = [np.mean(values(own, "common", t)) for t in SHOWN] / np.array(off)
        shared = ", ".join(short(value, ".2f") for value in both)
        two.append(f"| {images:,} | {NAMES[method]} | {width} | {over_rounds(own, 'apart')} | {shared} |")
    return [distances, accuracies, two, small]


def _range(rows: Sequence[Row]) -> str:
    """The smallest and the largest test accuracy of these networks, after each of the rounds that tables show."""
    there = [own for t in shown(rows) if (own := values(rows, "accuracy", t))]
    ends = [dict.fromkeys((short(min(own)), short(max(own)))) for own in there]
    return ", ".join(" to ".join(of) for of in ends)


def written(page: str, rows: Sequence[Row]) -> str:
    """The page with the tables of these rows.

    Raises:
        ValueError: the page has no such tables.
    """
    lines = page.split("\n")
    for head, table in zip(HEADS, tables(rows), strict=True):
        first = lines.index(f"# {head}") + 2
        last = next(k for k in range(first, len(lines)) if not lines[k].startswith("# |"))
        lines[first:last] = [f"# {line}" for line in table]
    return "\n".join(lines)


def drawn(rows: Sequence[Row]) -> Figure:
    """A picture with two panels for each method and number of images.

    One panel shows distances from the limit and from the linearisation, and the other shows test accuracies.
    """
    alone = {of: own for of, own in groups(rows, 1).items() if of[2] == 1}
    pairs = list(dict.fromkeys(of[:2] for of in alone))  # pairs of a method and a number of images
    widths = sorted({of[3] for of in alone})
    with matplotlib.rc_context(STYLE):
        lines = -(-len(pairs) // COLUMNS)
        figure = Figure(figsize=(7.0, 1.45 * 2 * lines + 0.6), layout="constrained")
        panels = figure.subplots(2 * lines, COLUMNS, sharex=True, squeeze=False)
        for kind in (panels[::2], panels[1::2]):  # one scale for all distances, and one for all accuracies
            for axes in kind.flat[1:]:
                axes.sharey(kind.flat[0])
        places = list(zip(panels[::2].flat, panels[1::2].flat, strict=True))
        for (method, n), (far, share) in zip(pairs, places, strict=False):
            own = {of[3]: group for of, group in alone.items() if of[:2] == (method, n)}
            for width, group in own.items():
                color = SHADES[widths.index(width) % len(SHADES)]
                for row in group:
                    _line(far, row, "outputs", color, "-", "o")
                    _line(far, row, "linear", color, "--")
                    _line(far, row, "bent", color, ":")
                    _line(share, row, "accuracy", color, "-", "o")
            _line(share, max((row for group in own.values() for row in group), key=_rounds), "accuracy_limit")
            far.set(xscale="log", yscale="log", title=f"{NAMES[method]}, {n:,} images")
            share.set(xscale="log", xlabel="round")
            share.set_xticks([1, 10, 100], ["1", "10", "100"])
            share.tick_params(labelbottom=True)
        for far, share in places[len(pairs) :]:
            far.remove()
            share.remove()
        for far, share in places[: len(pairs) : COLUMNS]:
            far.set_ylabel("distance / |y|")
            share.set_ylabel("test accuracy")
        looks = [({"color": SHADES[k % len(SHADES)]}, f"width {width}") for k, width in enumerate(widths)]
        styles = (
            ("-", "network off the limit"),
            ("--", "linearisation off the limit"),
            (":", "network off its linearisation"),
        )
        looks += [({"color": "0.4", "linestyle": style}, name) for style, name in styles]
        looks.append(({"color": "black"}, "accuracy of the limit"))
        marks = [panels[0][0].plot([], [], **look)[0] for look, _ in looks]
        figure.legend(marks, [name for _, name in looks], loc="outside lower center", ncols=3, frameon=False)
    return figure


def _rounds(row: Row) -> int:
    return max(row["rounds"])


def _line(axes: Axes, row: Row, name: str, color: str = "black", style: str = "-", marker: str = "") -> None:
    axes.plot(row["rounds"], row[name], style, color=color, marker=marker, markersize=2, linewidth=0.9)


def main() -> None:
    """Measure the rows that are named, or write the page and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", nargs="+", default=[], metavar="ROW", help="'METHOD IMAGES STEP WIDTH SEEDS'")
    parser.add_argument("--rounds", type=int, default=max(ROUNDS), help="the last round that may be reported")
    parser.add_argument("--memmap", type=Path, help="a file of the limit's tiles")
    parser.add_argument("--float32", action="store_true", help="train in single precision")
    given = parser.parse_args()
    rounds = tuple(t for t in ALL_ROUNDS if t <= given.rounds)
    for wanted in [point(words) for words in given.measure]:
        for row in growing(wanted, rounds, given.memmap, "float32" if given.float32 else "float64"):
            keep(row)
            print(json.dumps(row), flush=True)
    if not given.measure:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), kept()), encoding="utf-8")
        PICTURE.write_bytes(themed(as_bytes(drawn(kept()), "svg", "image-limits")))


if __name__ == "__main__":
    main()
