"""The tables of certified networks show the stored rows; a second measurement gives the stored row."""

import importlib.util
import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("certified_networks", DOCS / "certified_networks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_tables_of_the_stored_rows(script):
    page, rows = script.PAGE.read_text(encoding="utf-8"), script.kept()
    assert script.written(page, rows) == page
    assert sorted(rows, key=script.order) == rows and len({script.order(row) for row in rows}) == len(rows)
    large, small = script.tables(rows)
    assert len(large) > 90 and all(line.count("|") == 11 for line in large)
    assert len(small) > 15 and all(line.count("|") == 8 for line in small)
    other = [row | {"first": 2 * row["first"]} if row["first"] else row for row in rows]
    assert script.written(page, other) != page


def test_a_row_is_measured_as_it_is_stored(script, tmp_path, monkeypatch):
    words = "digits 50 fc:2:erf 1024"
    (stored,) = (row for row in script.kept() if all(row[name] == script.point(words)[name] for name in script.POINT))
    monkeypatch.setattr(script, "ROWS", tmp_path / "rows.json")
    script.ROWS.write_text("[]", encoding="utf-8")
    script.keep(script.measured(script.point(words)))
    (row,) = json.loads(script.ROWS.read_text(encoding="utf-8"))
    script.keep(row)
    assert script.kept() == [row]
    for name in ("first", "distance", "fall", "final", "least", "start"):
        assert row[name] == pytest.approx(stored[name], rel=1e-3), name


def test_numbers_are_rounded_to_the_side_that_claims_less(script):
    for value, down, up in ((0.01032, ".01", ".011"), (8.5e-5, "8.5e-5", "8.5e-5"), (1.234, "1.2", "1.3")):
        assert (script.rounded(value, up=False), script.rounded(value, up=True)) == (down, up)
    assert script.rounded(9.99e-5, up=True) == ".0001" and script.rounded(2e-6, up=False) == "2e-6"


def test_a_row_of_another_form_is_refused(script):
    for words in ("digits 50 fc:2:erf", "wine 50 fc:2:erf 64", "digits 50 fc:2:swish 64", "digits many fc:2:erf 64"):
        with pytest.raises(ValueError, match=r"is no row|write it like fc:3:erf"):
            script.point(words)
