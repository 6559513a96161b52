"""Write the tables of proofs/losses_in_any_order.md: `python docs/certified_losses.py`.

certified_losses.json has a row for each training. The next command trains the networks of the named rows, one after the
other and each in a process of its own, until a certificate is found at some round. Each row is kept as soon as it is
measured:

    python docs/certified_losses.py --measure "fashion-mnist 10 squares"
"""

import sys
import time
from collections.abc import Iterable, Sequence
from decimal import ROUND_DOWN, ROUND_UP, Decimal
from pathlib import Path

import numpy as np
import stored_rows
from stored_rows import Row

import ntkfl
from ntkfl.any_order import certify_any_order
from ntkfl.any_order.watching import Network, loss_checkpoints
from ntkfl.connectivity.network import TwoLayer
from ntkfl.initialisation import draw
from ntkfl.limit.convex_loss import loss_of

HERE = Path(__file__).parent
ROWS, PAGE = HERE / "certified_losses.json", HERE / "proofs" / "losses_in_any_order.md"
SAMPLES, WIDTH, ROUNDS = 50, 2000, 4000
SETUP = ntkfl.Setup(width=WIDTH, eta_local=0.5, local_steps=5, eta_global=1.0)
DATA = {"digits": ("digits", ntkfl.data.digits), "fashion-mnist": ("Fashion-MNIST", ntkfl.data.fashion_mnist)}
LOSSES = {"hinge": "squared hinge", "squares": "squares"}
LOOKS = {(1, "hinge"): (0, 20), (1, "squares"): (0, 40), (10, "hinge"): (60, 20), (10, "squares"): (200, 40)}
POINT = "data", "outputs", "loss"
HEAD = "| data | loss | round | $\\lvert r\\rvert$ | $D$ | kept | held | steps below |"


def point(words: str) -> Row:
    """The row that the words "DATA OUTPUTS LOSS" name.

    Raises:
        ValueError: the words name no row.
    """
    try:
        data, outputs, loss = words.split()
        if data not in DATA or (int(outputs), loss) not in LOOKS:
            raise ValueError(f"there are {', '.join(DATA)}; 1 and 10 outputs; {', '.join(LOSSES)}")
        return {"data": data, "outputs": int(outputs), "loss": loss}
    except ValueError as error:
        raise ValueError(f"{words!r} is no row ({error}); write it like 'digits 10 hinge'") from None


def start(of: Row) -> tuple[ntkfl.Problem, Network]:
    """The data with labels -1 and +1, and the network at round 0."""
    images = DATA[of["data"]][1]
    if of["outputs"] == 1:
        problem = images(n=SAMPLES)
        return problem, draw(WIDTH, problem.d, SETUP.seed, SETUP.sigma)
    hot = images(n=SAMPLES, target="one-hot")
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((WIDTH, hot.d))
    readout = rng.choice([-1.0, 1.0], (of["outputs"], WIDTH)) / np.sqrt(WIDTH)
    return ntkfl.Problem(hot.x, 2 * hot.y - 1, hot.owner), TwoLayer(hidden, readout)


def measured(of: Row) -> Row:
    """The first examined round at which the network is certified, with its numbers.

    `seconds` is the processor time of the training and of all examinations.

    Raises:
        RuntimeError: the network is certified at no round up to the last one.
    """
    begun, (problem, network), loss = time.process_time(), start(of), loss_of(of["loss"])
    first, every = LOOKS[of["outputs"], of["loss"]]
    for reached, weights in loss_checkpoints(problem, SETUP, loss, ROUNDS, every, network):
        if reached < first:
            continue
        certificate = certify_any_order(problem, weights, loss=loss)
        pull = float(np.linalg.norm(loss.slope(weights.outputs(problem.x), problem.y)))
        seconds = time.process_time() - begun
        if not certificate.certified:
            print(f"round {reached}, {seconds:.0f} s: pull {pull:.3g}; {certificate.why}", file=sys.stderr, flush=True)
            continue
        return of | {
            "round": reached,
            "pull": pull,
            "distance": float(certificate.distance.hi),
            "kept": len(certificate.kept),
            "held": len(certificate.held),
            "limit": certificate.step_limit,
            "seconds": round(seconds, 1),
            "gb": round(stored_rows.peak_gb(), 3),
        }
    raise RuntimeError(f"no round up to {ROUNDS} certifies: {certificate.why}")


def kept() -> list[Row]:
    """The rows that were measured."""
    return stored_rows.kept(ROWS)


def keep(row: Row) -> None:
    """Add the row to the file. It replaces a row of the same point."""
    stored_rows.keep(ROWS, kept(), row, POINT, order)


def order(row: Row) -> tuple[int, ...]:
    """The key by which the rows of the tables are sorted."""
    return row["outputs"], list(DATA).index(row["data"]), list(LOSSES).index(row["loss"])


def tables(rows: Sequence[Row]) -> list[list[str]]:
    """The lines below the heads of both tables."""
    return [[_line(row) for row in sorted(rows, key=order) if row["outputs"] == outputs] for outputs in (1, 10)]


def _line(row: Row) -> str:
    pull, distance = (f"{_rounded(row[name], ROUND_UP):.1e}".replace("e-0", "e-") for name in ("pull", "distance"))
    limit = f"{_rounded(row['limit'], ROUND_DOWN):.2g}".removeprefix("0")
    cells = [DATA[row["data"]][0], LOSSES[row["loss"]], row["round"], pull, distance, row["kept"], row["held"], limit]
    return f"| {' | '.join(map(str, cells))} |"


def _rounded(value: float, way: str) -> float:
    """The value with two digits, rounded in the given direction, so that no claim becomes stronger."""
    exact = Decimal(repr(value))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 1), way))


def written(page: str, rows: Sequence[Row]) -> str:
    """The page with the tables of these rows.

    Raises:
        ValueError: the page has no such tables.
    """
    return stored_rows.with_tables(page, ((HEAD, table) for table in tables(rows)))


def main(words: Iterable[str]) -> None:
    """Measure these rows, or write the page."""
    points = [point(word) for word in words]
    for row in stored_rows.measured_alone(measured, points):
        keep(row)
        print(_line(row), flush=True)
    if not points:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), kept()), encoding="utf-8")


if __name__ == "__main__":
    main(stored_rows.asked(__doc__, "DATA OUTPUTS LOSS").measure)
