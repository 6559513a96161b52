"""Tests of the page with tables of certified losses.

The tables show the stored rows, and a row that is measured again equals the stored one.
"""

import certified_losses as script
import pytest
from rows_of_pages import measured_again, own_rows


def test_the_page_has_the_tables_of_the_stored_rows():
    assert len(own_rows(script, "round")) == 8


@pytest.mark.slow
@pytest.mark.parametrize("words", ["digits 1 hinge", "digits 10 hinge"])
def test_a_row_measured_again_is_the_stored_one(words, tmp_path, monkeypatch):
    stored, again = measured_again(script, words, tmp_path, monkeypatch)
    for name in ("round", "kept", "held"):
        assert again[name] == stored[name]
    for name in ("pull", "distance", "limit"):
        assert again[name] == pytest.approx(stored[name], rel=1e-4)


def test_numbers_claim_no_more_than_was_measured():
    (row,) = (
        row for row in script.kept() if row["data"] == "digits" and row["outputs"] == 10 and row["loss"] == "hinge"
    )
    line = script._line(row | {"pull": 1.21e-4, "distance": 1.29e-5, "limit": 0.869})
    assert line == f"| digits | squared hinge | 120 | 1.3e-4 | 1.3e-5 | {row['kept']} | {row['held']} | .86 |"


def test_a_row_of_another_form_is_refused():
    for words in ("digits 10", "wine 1 hinge", "digits many hinge", "digits 10 logistic", "digits 3 hinge"):
        with pytest.raises(ValueError, match="is no row"):
            script.point(words)
