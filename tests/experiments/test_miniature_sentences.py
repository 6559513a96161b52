"""The page's first sentences: their numbers and words come from the results, and change with them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from test_miniatures import toy

from experiments.miniatures import catalogue
from experiments.miniatures.cells import Cell
from experiments.miniatures.comparison import compared
from experiments.miniatures.results.learnt import sentences
from experiments.miniatures.results.results_page import results_page


def planted(name, values, rise=0.0):
    """The miniature with invented curves: given values for some settings, 70 for all others, and tiny noise."""
    miniature, cells = catalogue()[name], []
    for setting in miniature.settings:
        for seed in range(4):
            noise = 0.02 * np.random.default_rng([seed, len(setting.name)]).standard_normal()
            level = values.get(setting.name, 70.0) + noise
            curve = level + rise * np.clip(np.arange(-20, 10) / 9, 0, 1) - rise
            measured = {
                q.name: level if q.flat is None else float(np.mean(curve[-q.last :])) for q in miniature.quantities
            }
            curves = {q.name: curve.tolist() for q in miniature.quantities if q.flat is not None}
            cells.append(Cell(miniature.label, setting.name, seed, setting.keys, measured, curves=curves))
    return miniature, cells


def of(about, results):
    return next((sentence for sentence in sentences(results) if re.search(about, sentence)), "")


@pytest.mark.parametrize(
    ("control", "says"),
    [(72.0, "In 0 of these it is also above its control"), (71.0, "In 3 of these it is also above its control")],
)
def test_what_remains_of_fedgucci_is_counted_against_its_controls(control, says):
    values = {f"FedGuCci, {passes} passes": 72.0 for passes in (1, 3, 10)}
    values |= {f"control of FedGuCci, {passes} passes": control for passes in (1, 3, 10)}
    results = [planted("local-epochs", values)]
    assert says in of("^FedGuCci is above", results)
    assert ("the other 3 may be the effect of a larger step alone" in of("^FedGuCci is above", results)) == (
        control == 72.0
    )
    assert f"{72 - control:+.1f}" in of("above the gain of its control", results)
    word = "3 are seen but are no more" if control == 72.0 else "3 are seen here beyond the effect"
    assert word in of("^Of 3 orderings", results)


def test_equal_runs_of_two_names_count_once():
    """FedNova is FedAvg where clients take equally many steps: one of the nine comparisons is left out."""
    names = [setting.name for setting in catalogue()["ima-methods"].settings]
    miniature, cells = planted("ima-methods", {name: 60.0 + 0.37 * k**1.5 for k, name in enumerate(names)})
    fedavg = [cell for cell in cells if cell.setting.startswith("FedAvg")]
    of_fedavg = {(cell.setting.replace("FedAvg", "FedNova"), cell.seed): cell.numbers for cell in fedavg}
    equal = [replace(cell, numbers=of_fedavg.get((cell.setting, cell.seed), cell.numbers)) for cell in cells]
    assert "of 9 comparisons" in of("^IMA is", [(miniature, cells)])
    assert "of 8 comparisons" in of("^IMA is", [(miniature, equal)])


def test_orderings_without_a_control_are_not_called_beyond_the_step_size():
    results = [planted("plane", {})]
    judged = [row for row in compared(*results[0]) if row.claim]
    assert judged and not any(row.beyond_finding for row in judged)
    assert "0 are seen here beyond the effect of the step size" in of("^Of ", results)


def test_a_radius_of_zero_is_not_sharpness_aware():
    count = len([s for s in catalogue()["ablation"].settings if s.keys["method"] == "fedgucci+"])
    assert f"of {count - 1} settings" in of("sharpness-aware", [planted("ablation", {})])


def test_orderings_before_a_plateau_are_named():
    values = {f"FedGuCci, {passes} passes": 72.0 for passes in (1, 3, 10)}
    assert "local-epochs (3)" in of("curves still move", [planted("local-epochs", values, rise=5.0)])
    assert not of("curves still move", [planted("local-epochs", values)])


def test_every_miniature_that_a_sentence_names_has_those_settings():
    """All small miniatures with invented numbers: the page opens with every sentence, each once."""
    results = [planted(name, {}) for name in catalogue()]
    said = sentences(results)
    for about in (
        "^FedDyn",
        "^SCAFFOLD",
        "^IMA is",
        "^Models that were trained",
        "the released FedGuCci, with two steps",
        "sharpness-aware",
    ):
        assert sum(bool(re.search(about, sentence)) for sentence in said) == 1, about
    text = results_page(results, "")
    assert text.index("1. " + said[0]) < text.index("| miniature |") and len(said) <= 10
    assert all(sentence.endswith(".") and "nan" not in sentence for sentence in said)


def test_results_without_orderings_say_nothing():
    assert not sentences([]) and not sentences([(toy(lambda keys, seed: {"score": 1.0}), [])])
