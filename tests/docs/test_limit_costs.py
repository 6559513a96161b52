"""Tests of the page whose tables show what computations at infinite width cost, and how large their errors are.

The tables show the stored rows, and rows that are measured again have the form of the stored ones.
"""

import limit_costs as script
import numpy as np
import pytest
from rows_of_pages import own_rows

from ntkfl import data


def test_the_page_has_the_tables_of_the_stored_rows():
    rows = own_rows(script, "before")
    own_rows(script, "float32_movement")
    for row in rows:
        if row["question"] == "errors":
            for name in ("residual", "entry", "movement"):
                for dtype in ("float32", "float64"):
                    true, bound = (np.array(row[f"{dtype}_{name}{end}"]) for end in ("", "_bound"))
                    assert (true <= bound).all(), row


def test_rows_are_measured_and_kept_once(tmp_path, monkeypatch):
    own = data.digits(110, target="one-hot", clients=5, partition="shards:2")
    monkeypatch.setattr(script, "problem", lambda images: own)
    monkeypatch.setattr(script, "ROWS", tmp_path / "rows.json")
    with pytest.raises(ValueError, match=r"there are no tiles in .*; measure 'costs tiles 110' first"):
        script.measured(script.point("costs scaffold 110"), tmp_path)
    with pytest.raises(ValueError, match="name it with --folder"):
        script.measured(script.point("costs tiles 110"))
    for words in ("errors scaffold 110", "costs tiles 110", "costs scaffold 110", "costs scaffold 110"):
        script.keep(script.measured(script.point(words), tmp_path))
    with pytest.raises(ValueError, match="is there already, and its build is not measured"):
        script.measured(script.point("costs tiles 110"), tmp_path)
    tiles, scaffold, errors = script.kept()
    assert (tiles["method"], scaffold["method"], errors["question"]) == ("tiles", "scaffold", "errors")
    assert tiles["rounds"] is None and len(scaffold["rounds"]) == 2 and min(scaffold["before"]) > 0
    costs, off = script.tables(script.kept()).values()
    assert costs[0].startswith("| 110 | the tiles | ") and costs[1].startswith("| 110 | SCAFFOLD | ")
    assert [line.split(" | ")[1] for line in off] == ["1", "10", "100"] and len(costs) == 2
    for name in ("residual", "entry", "movement"):
        assert 0 < max(errors[f"float32_{name}"]) < max(errors[f"float32_{name}_bound"]) < 0.1


def test_a_row_of_another_form_is_refused():
    wrong = ["costs fedavg", "costs cyclic 2000", "errors tiles 2000", "speed fedavg 2000", "costs fedavg 20"]
    for words in (*wrong, "costs tuned 99999"):
        with pytest.raises(ValueError, match="write it like 'costs scaffold 20000'"):
            script.point(words)
