"""Tests of the page with tables of certified networks.

The tables show the stored rows, and a row that is measured again equals the stored one.
"""

import certified_networks as script
import pytest
from rows_of_pages import measured_again, own_rows


def test_the_page_has_the_tables_of_the_stored_rows():
    large, small = script.tables(own_rows(script, "first"))
    assert len(large) > 90 and all(line.count("|") == 11 for line in large)
    assert len(small) > 15 and all(line.count("|") == 8 for line in small)


def test_a_row_is_measured_as_it_is_stored(tmp_path, monkeypatch):
    stored, row = measured_again(script, "digits 50 fc:2:erf 1024", tmp_path, monkeypatch)
    for name in ("first", "distance", "fall", "final", "least", "start"):
        assert row[name] == pytest.approx(stored[name], rel=1e-3), name


def test_numbers_are_rounded_to_the_side_that_claims_less():
    for value, down, up in ((0.01032, ".01", ".011"), (8.5e-5, "8.5e-5", "8.5e-5"), (1.234, "1.2", "1.3")):
        assert (script.rounded(value, up=False), script.rounded(value, up=True)) == (down, up)
    assert script.rounded(9.99e-5, up=True) == ".0001" and script.rounded(2e-6, up=False) == "2e-6"


def test_a_row_of_another_form_is_refused():
    for words in ("digits 50 fc:2:erf", "wine 50 fc:2:erf 64", "digits 50 fc:2:swish 64", "digits many fc:2:erf 64"):
        with pytest.raises(ValueError, match=r"is no row|write it like fc:3:erf"):
            script.point(words)
