"""The table of times of random rounds shows the stored rows; a second measurement gives the stored answer."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("random_rounds_times", DOCS / "random_rounds_times.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_table_of_the_stored_rows(script):
    page, rows = script.PAGE.read_text(encoding="utf-8"), script.kept()
    assert script.written(page, rows) == page and sorted(rows, key=script.order) == rows
    other = [row | {"seconds": 2 * row["seconds"]} for row in rows]
    assert script.written(page, other) != page


def test_a_row_that_was_not_measured_leaves_its_place_empty(script):
    rows = [
        {"way": "feddyn", "n": n, "question": "rate", "value": v, "seconds": 9.0} for n, v in ((200, 0.9), (500, None))
    ]
    (line,) = (line for line in script.table(rows) if line.startswith("| FedDyn |"))
    assert line == "| FedDyn | 9 |  |  | 9 (grows) |  |  |  |  |  |"


@pytest.mark.parametrize("words", ["fedavg 200 rate", "nesterov 200 stationary", "in-turn-batches 200 sampled"])
def test_a_row_measured_again_has_the_stored_answer(script, words, tmp_path, monkeypatch):
    wanted = script.point(words)
    (stored,) = (row for row in script.kept() if wanted.items() <= row.items())
    again = script.measured(wanted)
    assert again["value"] == pytest.approx(stored["value"], rel=1e-6) and again["seconds"] > 0
    monkeypatch.setattr(script, "ROWS", tmp_path / "rows.json")
    script.ROWS.write_text("[]", encoding="utf-8")
    script.keep(again)
    script.keep(again)
    assert script.kept() == [again]


def test_a_row_of_another_form_is_refused(script):
    for words in ("fedavg 200", "moon 200 rate", "fedavg many rate", "fedavg 200 speed"):
        with pytest.raises(ValueError, match="is no row"):
            script.point(words)
