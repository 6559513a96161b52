"""The tables of certified losses are those of the stored rows, and a row measured again is the stored one."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("certified_losses", DOCS / "certified_losses.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_tables_of_the_stored_rows(script):
    page, rows = script.PAGE.read_text(encoding="utf-8"), script.kept()
    assert script.written(page, rows) == page and sorted(rows, key=script.order) == rows
    assert len({script.order(row) for row in rows}) == len(rows) == 8
    other = [row | {"round": 2 * row["round"]} for row in rows]
    assert script.written(page, other) != page


@pytest.mark.slow
@pytest.mark.parametrize("words", ["digits 1 hinge", "digits 10 hinge"])
def test_a_row_measured_again_is_the_stored_one(script, words, tmp_path, monkeypatch):
    wanted = script.point(words)
    (stored,) = (row for row in script.kept() if wanted.items() <= row.items())
    monkeypatch.setattr(script, "ROWS", tmp_path / "rows.json")
    script.ROWS.write_text("[]", encoding="utf-8")
    script.keep(script.measured(wanted))
    (again,) = script.kept()
    for name in ("round", "kept", "held"):
        assert again[name] == stored[name]
    for name in ("pull", "distance", "limit"):
        assert again[name] == pytest.approx(stored[name], rel=1e-4)


def test_numbers_claim_no_more_than_was_measured(script):
    (row,) = (
        row for row in script.kept() if row["data"] == "digits" and row["outputs"] == 10 and row["loss"] == "hinge"
    )
    line = script._line(row | {"pull": 1.21e-4, "distance": 1.29e-5, "limit": 0.869})
    assert line == f"| digits | squared hinge | 120 | 1.3e-4 | 1.3e-5 | {row['kept']} | {row['held']} | .86 |"


def test_a_row_of_another_form_is_refused(script):
    for words in ("digits 10", "wine 1 hinge", "digits many hinge", "digits 10 logistic", "digits 3 hinge"):
        with pytest.raises(ValueError, match="is no row"):
            script.point(words)
