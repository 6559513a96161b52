"""Write the tables of *Is my deep network's training safe?*: `python docs/certified_networks.py`.

certified_networks.json has a row for each network, which is a result of the study `certificate-reach` with seed 0. The
next command measures the named rows, one after the other and each in a process of its own. Each row is kept as soon as
it is measured:

    python docs/certified_networks.py --measure "digits 500 fc:3:erf:fixed 1024" "fashion-mnist 200 fc:5:gelu 1024"
"""

import math
import time
from collections.abc import Iterable, Sequence
from decimal import ROUND_DOWN, ROUND_UP, Decimal
from pathlib import Path

import stored_rows
from stored_rows import Row

from experiments.studies.questions.certificate_reach import TEST, images, measure, parts

HERE = Path(__file__).parent
ROWS, PAGE = HERE / "certified_networks.json", HERE / "pages" / "deep_network_safe.py"
POINT = "data", "n", "network", "width"
IMAGES = {"digits": "digits", "fashion-mnist": "Fashion-MNIST"}
ACTIVATIONS = "erf", "gelu", "relu"
WIDTH, WIDTHS = 1024, (256, 1024, 4096)  # the width of the first table, and the widths of the second table
HEADS = (
    "| images | n | network | readout | first certified residual | distance to a fit | 1 - window factor | "
    "final classes | s | GB |",
    "| images | n | network | readout | 256 neurons | 1024 | 4096 |",
)


def point(words: str) -> Row:
    """The row that the words "DATA N NETWORK WIDTH" name.

    Raises:
        ValueError: the words name no row.
    """
    try:
        data, n, network, width = words.split()
        row = {"data": images(data), "n": int(n), "network": network, "width": int(width)}
    except ValueError as error:
        raise ValueError(f"{words!r} is no row ({error}); write it like 'digits 500 fc:3:erf:fixed 1024'") from None
    parts(network)
    return row


def measured(of: Row) -> Row:
    """The study's result at this point, with the seconds of processor and the peak memory of the process in GB."""
    begun = time.process_time()
    quantities = measure(of | {"seed": 0})
    seconds, memory = time.process_time() - begun, stored_rows.peak_gb()
    finite = {name: float(value) if math.isfinite(float(value)) else None for name, value in quantities.items()}
    return of | finite | {"seconds": round(seconds, 3), "gb": round(memory, 3)}


def kept() -> list[Row]:
    """The rows that were measured."""
    return stored_rows.kept(ROWS)


def keep(row: Row) -> None:
    """Add the row to the file. It replaces a row of the same point."""
    stored_rows.keep(ROWS, kept(), row, POINT, order)


def order(row: Row) -> tuple:
    """The key by which the rows of the tables are sorted."""
    of = parts(row["network"])
    activation = ACTIVATIONS.index(of.activation) if of.activation in ACTIVATIONS else len(ACTIVATIONS)
    return list(IMAGES).index(row["data"]), row["n"], activation, of.depth, of.standard, of.fixed, row["width"]


def rounded(value: float, up: bool) -> str:
    """The value with two digits, rounded up or down."""
    exact = Decimal(repr(value))
    unit = Decimal(1).scaleb(exact.adjusted() - 1)
    near = float(exact.quantize(unit, ROUND_UP if up else ROUND_DOWN))
    if near >= 1e-4:
        return f"{near:.12f}".rstrip("0").rstrip(".").removeprefix("0") or "0"
    return f"{near:.1e}".replace("e-0", "e-").replace(".0e", "e")


def tables(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """The lines of both tables below their heads."""
    rows = sorted(rows, key=order)
    large = [_large(row) for row in rows if row["width"] == WIDTH]
    by_network: dict[str, dict[int, Row]] = {}
    for row in rows:
        by_network.setdefault(_name(row), {})[row["width"]] = row
    small = [
        f"{name} " + " ".join(f"| {_first(of[width]) if width in of else ''}" for width in WIDTHS) + " |"
        for name, of in by_network.items()
        if len(of) > 1
    ]
    return large, small


def _name(row: Row) -> str:
    network = row["network"].removesuffix(":fixed")
    readout = "fixed" if parts(row["network"]).fixed else "trained"
    return f"| {IMAGES[row['data']]} | {row['n']} | {network} | {readout}"


def _first(row: Row) -> str:
    if row["first"] is not None:
        return rounded(row["first"], up=False)
    return "none" if row["asked"] is None else f"none (asked: {rounded(row['asked'], up=False)})"


def _large(row: Row) -> str:
    if row["first"] is None:
        asked = "nothing" if row["asked"] is None else rounded(row["asked"], up=False)
        numbers = [f"none ({asked} asked for, known to {rounded(row['known'], up=True)})", "", "", ""]
    else:
        numbers = [
            rounded(row["first"], up=False),
            rounded(row["distance"], up=True),
            rounded(row["fall"], up=False),
            str(round(row["final"] * TEST)),
        ]
    return f"{_name(row)} | {' | '.join(numbers)} | {row['seconds']:.2g} | {row['gb']:.1f} |"


def written(page: str, rows: Sequence[Row]) -> str:
    """The page with the tables of these rows.

    Raises:
        ValueError: the page has no such tables.
    """
    return stored_rows.with_tables(page, zip(HEADS, tables(rows), strict=True), "# ")


def main(words: Iterable[str]) -> None:
    """Measure these rows, or write the page."""
    points = [point(word) for word in words]
    for row in stored_rows.measured_alone(measured, points):
        keep(row)
        print(_large(row), flush=True)
    if not points:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), kept()), encoding="utf-8")


if __name__ == "__main__":
    main(stored_rows.asked(__doc__, "DATA N NETWORK WIDTH").measure)
