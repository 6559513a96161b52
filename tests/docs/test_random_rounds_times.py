"""Tests of the table of times of random rounds: it shows the stored rows, and a new run gives the stored answer."""

import pytest
import random_rounds_times as script
from rows_of_pages import measured_again, own_rows


def test_the_page_has_the_table_of_the_stored_rows():
    own_rows(script, "seconds")


def test_a_row_that_was_not_measured_leaves_its_place_empty():
    rows = [
        {"way": "feddyn", "n": n, "question": "rate", "value": v, "seconds": 9.0} for n, v in ((200, 0.9), (500, None))
    ]
    (line,) = (line for line in script.table(rows) if line.startswith("| FedDyn |"))
    assert line == "| FedDyn | 9 |  |  | 9 (grows) |  |  |  |  |  |"


@pytest.mark.parametrize("words", ["fedavg 200 rate", "nesterov 200 stationary", "in-turn-batches 200 sampled"])
def test_a_row_measured_again_has_the_stored_answer(words, tmp_path, monkeypatch):
    stored, again = measured_again(script, words, tmp_path, monkeypatch)
    assert again["value"] == pytest.approx(stored["value"], rel=1e-6) and again["seconds"] > 0


def test_a_row_of_another_form_is_refused():
    for words in ("fedavg 200", "moon 200 rate", "fedavg many rate", "fedavg 200 speed"):
        with pytest.raises(ValueError, match="is no row"):
            script.point(words)
