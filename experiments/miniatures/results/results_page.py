"""The results of miniatures as a page in Markdown and as CSV.

The text of the page is in the template `miniatures.md.jinja`.
"""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

from experiments import miniatures
from experiments.miniatures.cells import Cell
from experiments.miniatures.comparison import BEYOND, STEP_SIZE, Comparison, chance, compared
from experiments.miniatures.miniature import PAPER, SMALL, Miniature
from experiments.miniatures.results.by_scale import Result, both, pairs
from experiments.miniatures.results.curves import with_curves
from experiments.miniatures.results.learnt import VERDICTS, sentences
from experiments.miniatures.step_size import CONTROL_OF, NONE_BECAUSE
from experiments.text_templates import rendered
from ntkfl.messages import number_of

NUMBERS = "paper", "paper's difference", "here", "difference here", "beyond its control", "last third"
COLUMNS = ("setting", *NUMBERS, "finding", "paper's ordering")
FIELDS = (
    *("miniature", "quantity", "unit", "setting", "seeds", "mean", "standard error", "difference"),
    *("its standard error", "beyond control", "its error", "last third", "error of the last third", "finding"),
    *("paper mean", "paper deviation", "paper difference", "paper ordering"),
)
NO_SPREAD = 1e-9  # a smaller error is only the rounding error of seeds with equal values


def results_page(results: Sequence[Result], command: str) -> str:
    """The page about these miniatures: how to read it, a line for each miniature, then all tables."""
    there = {miniature.name for miniature, _ in results}
    return rendered(
        "miniatures.md",
        blocks=True,
        command=command,
        learnt=sentences(results),
        small=all(miniature.at != PAPER for miniature, _ in results),
        beyond=f"{BEYOND:g}",
        step_size=STEP_SIZE,
        verdicts=VERDICTS,
        numbers=NUMBERS,
        parts=[_part(*result) for result in results],
        scales=[_on_two_scales(*pair) for pair in pairs(results)],
        control_of=CONTROL_OF,
        none_because=NONE_BECAUSE,
        rest=[miniature for name, miniature in miniatures.catalogue().items() if name not in there],
    )


def _part(miniature: Miniature, cells: Sequence[Cell]) -> dict[str, Any]:
    """The values that the template takes for one miniature."""
    seeds, rows = len({cell.seed for cell in cells}), compared(miniature, cells)
    judged = [row for row in rows if row.verdict in VERDICTS]
    settled = sum(row.plateau is not None and not row.settled for row in judged)
    by_chance = f"a true 0 is called a difference in {chance(seeds):.0%} of cases" if seeds > 1 else "no error is known"
    tables = []
    for quantity in miniature.quantities:
        texts = [_texts(row) for row in rows if row.quantity == quantity.name]
        tables.append((quantity, [name for name in COLUMNS if any(text[name] for text in texts)], texts))
    return {
        **{name: getattr(miniature, name) for name in ("name", "label", "question", "source", "caveat")},
        "seeds": number_of(seeds, "seed"),
        "by_chance": by_chance,
        "minutes": sum(cell.seconds for cell in cells) / 60,
        "scale": "" if miniature.at == SMALL else f" --scale {miniature.at}",
        "pictures": _pictures(miniature),
        "sizes": miniature.scale,
        "tables": tables,
        "counts": (
            *(sum(row.verdict == verdict for row in judged) for verdict in VERDICTS),
            settled if any(row.plateau for row in judged) else "",
        ),
    }


def _pictures(miniature: Miniature) -> list[tuple[str, str, str]]:
    """The miniature's pictures in the repository, which are its own picture and its curves.

    Each has its path, a description, and the name of the file.
    """
    kept = [(miniature.picture, "The first seed's", miniature.label)] if miniature.picture else []
    if with_curves(miniature) and miniature.at != PAPER:
        what = "Means over the seeds, the last third shaded, controls dashed"
        kept.append((f"docs/curves/{miniature.label}.svg", what, "curves"))
    return kept


def _on_two_scales(first: Result, other: Result) -> tuple[Miniature, Miniature, list[tuple[str, ...]]]:
    """The miniature on each of the two scales, and a row for each ordering of the paper."""
    rows = []
    for row, larger, says in both(first, other):
        differences = (_with_error(at.difference, at.difference_error, signed=True) for at in (row, larger))
        rows.append((row.quantity, row.setting, _change(row), *differences, says))
    return first[0], other[0], rows


def as_csv(results: Iterable[Result]) -> str:
    """A line of CSV for each setting and quantity, with numbers that are not rounded.

    An empty field means that there is no such number.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(FIELDS)
    for miniature, cells in results:
        for row in compared(miniature, cells):
            seeds = sum(cell.setting == row.setting and not cell.failure for cell in cells)
            end = (row.plateau.change, row.plateau.error) if row.plateau else (math.nan, math.nan)
            numbers = (row.mean, row.error, row.difference, row.difference_error, row.beyond, row.beyond_error, *end)
            paper = (*(row.paper or (None, None)), row.paper_difference)
            writer.writerow(
                [miniature.label, row.quantity, row.unit, row.setting, seeds]
                + [_field(number) for number in numbers]
                + [row.finding, *(_field(number) for number in paper), row.ordering]
            )
    return file.getvalue()


def _texts(row: Comparison) -> dict[str, str]:
    """The text in each column of the table."""
    end = row.plateau and f"{_with_error(row.plateau.change, row.plateau.error, signed=True)}, {row.plateau.state}"
    texts = (
        row.setting,
        "" if row.paper is None else _with_error(row.paper.mean, row.paper.deviation),
        _change(row),
        _with_error(row.mean, row.error),
        _with_error(row.difference, row.difference_error, signed=True),
        _with_error(row.beyond, row.beyond_error, signed=True),
        end or "",
        row.finding,
        row.ordering,
    )
    return dict(zip(COLUMNS, texts, strict=True))


def _change(row: Comparison) -> str:
    """The difference between the paper's numbers; empty if the paper prints none."""
    return "" if row.paper_difference is None else f"{_rounded(row.paper_difference):+g}"


def _with_error(value: float, error: float, signed: bool = False) -> str:
    """The value and its error as text.

    The error has two digits, and the value as many decimals as the error.
    """
    if math.isnan(value):
        return ""
    sign = "+" if signed else ""
    if math.isnan(error):
        return f"{_rounded(value):{sign}g}"
    places = 2 if error < NO_SPREAD else max(0, 1 - math.floor(math.log10(error)))
    return f"{value:{sign}.{places}f} ± {error:.{places}f}"


def _rounded(value: float) -> float:
    """The number to four digits, as printed numbers are not more exact."""
    return float(f"{value:.4g}")


def _field(number: float | None) -> str:
    return "" if number is None or math.isnan(number) else repr(number)
