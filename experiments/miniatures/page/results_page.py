"""The results of miniatures as Markdown and as CSV."""

import csv
import io
import math
from collections.abc import Iterable, Sequence

from experiments import miniatures
from experiments.miniatures.cells import Cell
from experiments.miniatures.comparison import (
    BEYOND,
    STEP_SIZE,
    Comparison,
    chance,
    compared,
)
from experiments.miniatures.miniature import PAPER, SMALL, Miniature
from experiments.miniatures.page.by_scale import Result, both, pairs
from experiments.miniatures.page.curves import with_curves
from experiments.miniatures.page.learnt import VERDICTS, sentences
from experiments.miniatures.step_size import CONTROL_OF, NONE_BECAUSE
from ntkfl.messages import number_of

OMITTED = {  # experiments of the papers that have no miniature, and why
    "FedGuCci, Figures 1 and 5": "drawings that explain the method; nothing is measured in them",
    "FedGuCci, Table 3 (GLUE, RoBERTa-base with LoRA)": (
        "neither GLUE nor RoBERTa's weights come with a Python package, and invented sentences would say nothing "
        "about the table. With your GLUE files: `ntkfl train fedgucci --data sst-2 --path FOLDER --model minilm-lora`"
    ),
    "FedGuCci, Table 5 (pretrained ResNet18 and ViT)": "their weights come with no Python package",
    "FedGuCci, Tables 8 and 9 (10 and 7 of the KDD version), and the columns CIFAR-100 and Tiny-ImageNet elsewhere": (
        "these images come with no Python package. Table 8 is in minutes, which depend on the machine; the miniature "
        "participation has classes as uneven as Table 9's"
    ),
    "FedGuCci, the columns CIFAR-10 of Table 2": (
        "CIFAR-10 comes with no Python package; ordering asks the same of the columns Fashion-MNIST. With your copy, a "
        "method at a time: `ntkfl train fedgucci --data cifar-10 --path FOLDER --model simple-cnn --clients 50 "
        "--partition dirichlet:0.5 --rounds 150 --batch-size 64 --rate .04 --rate-decay .99 --weight-decay 5e-4`"
    ),
    "IMA, the rows CIFAR-100, Digit Five and PACS of Table I": "these images come with no Python package",
    "IMA, the rows Fashion-MNIST with Dirichlet 0.1 and CIFAR-10 with ResNet18 of Table I": (
        "ima-methods has the row Fashion-MNIST with 2 classes a client, its paper scale the row CIFAR-10 with the CNN; "
        "FedAvg at Dirichlet 0.1 is in ima. A row is 27 settings, and as small as ima-methods it takes as long again "
        "for the same question: `ntkfl train METHOD --data fashion-mnist --partition dirichlet:0.1 --ima` runs one of "
        "them. ResNet18 is too much for two processors"
    ),
    "IMA, methods other than FedAvg in Figures 6 and 7": (
        "each is FedAvg's curve with another method: 4 to 9 minutes of a processor a method, as small as ima and "
        "ima-window. ima-start-methods and ima-decays ask the same of Tables II and III, whose numbers are printed"
    ),
    "IMA, Figures 2 and 4 (biases and covariance over the rounds)": (
        "the figures show parts of a decomposition; the study averaging-factors has all of it, and the claim that the "
        "heterogeneous bias dominates, on networks of two layers with squares and a constant rate: `ntkfl study run "
        "averaging-factors`. Figure 4 estimates the covariance by a similarity of outputs instead"
    ),
    "IMA, Figure 5(a)": "a drawing that explains the method; nothing is measured in it",
    "IMA, Figure 10, the rows Fashion-MNIST and ResNet18": (
        "section 4's picture once more for other data and another model, without a claim of their own; plane has the "
        "first row and the last, Dirichlet 0.1"
    ),
}


SCALED_DOWN = (
    "Small data, small networks, few rounds: what is compared is the ordering of settings, never the numbers.",
    "",
)
NUMBERS = "paper", "paper's difference", "here", "difference here", "beyond its control", "last third"
COLUMNS = ("setting", *NUMBERS, "finding", "paper's ordering")
FIELDS = (
    *("miniature", "quantity", "unit", "setting", "seeds", "mean", "standard error", "difference"),
    *("its standard error", "beyond control", "its error", "last third", "error of the last third", "finding"),
    *("paper mean", "paper deviation", "paper difference", "paper ordering"),
)


NO_SPREAD = 1e-9  # a smaller error is the rounding of seeds that agree


def page(results: Sequence[Result], command: str) -> str:
    """The page of these miniatures: how to read it, a line for each result, then every table."""
    lines = [
        "# Miniatures of the papers' experiments",
        "",
        f"Written by `{command}`.",
        "",
        *_learnt(results),
        *(SCALED_DOWN if all(miniature.at != PAPER for miniature, _ in results) else ()),
        "All settings of a miniature share, seed by seed, data, partition, initial model, cohorts and batches.",
        "*Difference* is the mean over the seeds of the setting minus its baseline, ± one standard error; beyond",
        f"{BEYOND:g} standard errors, and one test image, it is called higher or lower, else within noise. *Paper's",
        "ordering* is what the paper's numbers (or curves) say of the same pair, and whether it is seen here; a",
        "printed difference smaller than the two printed deviations together is no claim (*within its own noise*), nor",
        "is one of a setting at chance. A difference whose true value is 0 is called higher or lower with the",
        "probability that stands under each heading.",
        "",
        "*Control*: FedAvg at the step size that the method amounts to in its exact limit, computed from X4 for",
        "FedGuCci; for IMA the same method at IMA's rates without averaging. Where the baseline has a control too, the",
        "gains of the two over their controls are compared. An ordering is *seen* where the setting",
        "differs from its baseline and its control, each beyond its error; where only the baseline is left behind,",
        f"it is *{STEP_SIZE}*. *Last third* is what the curve rises over its last third, ± one standard error: it is",
        "flat where that and twice its error are below a point. An ordering of curves that still move is one *before",
        "the plateau*; where the error hides which it is, *no plateau is shown*.",
        "",
        f"| miniature | question | the paper's orderings: {' | '.join(VERDICTS)} | of these on a plateau |",
        "|---|---|--:|--:|--:|--:|--:|",
        *(_summary(*result) for result in results),
        "",
    ]
    scales = [_scales(*pair) for pair in pairs(results)]
    return "\n".join([*lines, *(section(*result) for result in results), *scales, *_controls(), *_omitted(results)])


def _learnt(results: Sequence[Result]) -> list[str]:
    """The lessons of the miniatures, before everything else."""
    texts = sentences(results)
    return ["## What they say", "", *(f"{number}. {text}" for number, text in enumerate(texts, 1)), ""] if texts else []


def section(miniature: Miniature, cells: Sequence[Cell]) -> str:
    """The tables of one miniature."""
    seeds = len({cell.seed for cell in cells})
    took = sum(cell.seconds for cell in cells)
    by_chance = f"a true 0 is called a difference in {chance(seeds):.0%} of cases" if seeds > 1 else "no error is known"
    lines = [
        f"## {miniature.label}",
        "",
        f"{miniature.question}",
        "",
        f"{miniature.source}. {number_of(seeds, 'seed')}: {by_chance}. {took / 60:.1f} minutes of one processor.",
        *([miniature.caveat] if miniature.caveat else []),
        "",
        *_pictures(miniature),
        "| scaled down | paper | here |",
        "|---|---|---|",
        *(f"| {what} | {paper} | {here} |" for what, (paper, here) in miniature.scale.items()),
        "",
    ]
    rows = compared(miniature, cells)
    for quantity in miniature.quantities:
        texts = [_texts(row) for row in rows if row.quantity == quantity.name]
        used = [name for name in COLUMNS if any(text[name] for text in texts)]
        lines += [
            f"**{quantity.name}** [{quantity.unit}]",
            "",
            "| " + " | ".join(used) + " |",
            "|" + "|".join("--:" if name in NUMBERS else "---" for name in used) + "|",
            *("| " + " | ".join(text[name] for name in used) + " |" for text in texts),
            "",
        ]
    return "\n".join(lines)


def _pictures(miniature: Miniature) -> list[str]:
    """The pictures in the repository: the miniature's own picture and its curves."""
    scale = "" if miniature.at == SMALL else f" --scale {miniature.at}"
    kept = [(miniature.picture, "The first seed's", miniature.label)] if miniature.picture else []
    if with_curves(miniature) and miniature.at != PAPER:
        kept.append((curves_of(miniature), "Means over the seeds, the last third shaded, controls dashed", "curves"))
    lines = []
    for picture, what, name in kept:
        drawn = (
            f"{what}, as `ntkfl miniature {miniature.name}{scale} --out DIR` draws it in "
            f"`DIR/{miniature.label}/{name}.svg`:"
        )
        lines += [drawn, "", f"![{miniature.question}]({picture})", ""]
    return lines


def curves_of(miniature: Miniature) -> str:
    """The path in the repository of the picture of its curves."""
    return f"docs/curves/{miniature.label}.svg"


def _controls() -> list[str]:
    """The control of each method, or the reason why it has none."""
    lines = [
        "## Controls",
        "",
        "Where outputs are linear in the weights a method is, or is to the first order, its control:",
        "",
    ]
    lines += [f"- {name}: {what}." for name, what in CONTROL_OF.items()]
    lines += ["", "These have no equivalent rate:", ""]
    return [*lines, *(f"- {name}: {why}." for name, why in NONE_BECAUSE.items()), ""]


def _omitted(results: Sequence[Result]) -> list[str]:
    """The experiments that the page leaves out: those without a miniature, and miniatures that were not run."""
    there = {miniature.name for miniature, _ in results}
    rest = [miniature for miniature in miniatures.catalogue().values() if miniature.name not in there]
    lines = [f"- {what}: {why}." for what, why in OMITTED.items()]
    lines += [
        f"- {miniature.source}: not run for this page; `ntkfl miniature {miniature.name} --out DIR`."
        for miniature in rest
    ]
    return ["## What is not here", "", *lines, ""]


def _scales(first: Result, other: Result) -> str:
    """A line for each ordering of the paper, on two scales."""
    (small, _), (large, _) = first, other
    lines = [
        f"## {small.name} on two scales",
        "",
        f"Where [{small.label}](#{small.label}) does not see what the paper reports, does "
        f"[{large.label}](#{large.label})? A difference of the same sign on both scales is not due to the scale, "
        "but to the claim or to what both scales have in common. Different signs point to the scale, the number of "
        "rounds included.",
        "",
        f"| quantity | setting | paper's difference | {small.at} | {large.at} | what that says |",
        "|---|---|--:|--:|--:|---|",
    ]
    for row, larger, says in both(first, other):
        here, there = (
            _with_error(scale_row.difference, scale_row.difference_error, signed=True) for scale_row in (row, larger)
        )
        lines.append(f"| {row.quantity} | {row.setting} | {_change(row)} | {here} | {there} | {says} |")
    return "\n".join([*lines, ""])


def as_csv(results: Iterable[Result]) -> str:
    """A line for each setting and quantity, unrounded; an empty field means that there is no such number."""
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


def _summary(miniature: Miniature, cells: Sequence[Cell]) -> str:
    rows = [row for row in compared(miniature, cells) if row.verdict in VERDICTS]
    counts = [sum(row.verdict == verdict for row in rows) for verdict in VERDICTS]
    settled = sum(row.plateau is not None and not row.settled for row in rows)
    numbers = " | ".join(map(str, (*counts, settled if any(row.plateau for row in rows) else "")))
    return f"| [{miniature.label}](#{miniature.label}) | {miniature.question} | {numbers} |"


def _texts(row: Comparison) -> dict[str, str]:
    """The text of each column."""
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
    """The paper's difference; empty if it prints no numbers."""
    return "" if row.paper_difference is None else f"{_rounded(row.paper_difference):+g}"


def _with_error(value: float, error: float, signed: bool = False) -> str:
    """The value and its error, the error to two digits and the value to as many places."""
    if math.isnan(value):
        return ""
    sign = "+" if signed else ""
    if math.isnan(error):
        return f"{_rounded(value):{sign}g}"
    places = 2 if error < NO_SPREAD else max(0, 1 - math.floor(math.log10(error)))
    return f"{value:{sign}.{places}f} ± {error:.{places}f}"


def _rounded(value: float) -> float:
    """The number to four digits, if printed numbers are no more exact."""
    return float(f"{value:.4g}")


def _field(number: float | None) -> str:
    return "" if number is None or math.isnan(number) else repr(number)
