"""Tests of the page with tables and a picture of trained networks.

The tables and the picture show the stored rows, and a row that is measured again equals the stored one.
"""

import itertools

import image_limits as script
import numpy as np
import pytest
from rows_of_pages import lines_of, own_rows

from experiments.pictures import as_bytes, themed
from experiments.studies.questions import image_limits
from ntkfl import data


def test_page_and_picture_are_those_of_the_stored_rows():
    rows = own_rows(script, "outputs")
    other = [row | {"outputs": [2 * value for value in row["outputs"]]} if "outputs" in row else row for row in rows]
    figure = script.drawn(rows)
    assert themed(as_bytes(figure, "svg", "image-limits")) == script.PICTURE.read_bytes()
    assert lines_of(script.drawn(other)) != lines_of(figure)


def test_every_stored_distance_is_within_the_triangle():
    """No stored distance between network, linearisation and limit exceeds the sum of the other two distances."""
    for row in script.kept():
        if "outputs" in row:
            sides = np.array([row[name] for name in ("outputs", "linear", "bent")])
            assert (2 * sides <= sides.sum(axis=0) + 1e-5).all(), row


def test_what_the_page_says_of_all_rows_is_so():
    """What the page says of all rows is true of the stored rows.

    Most of a network's distance from the limit comes from its first kernel. Networks rank methods as their limits do.
    """
    rows = [row for row in script.kept() if len(row["seed"]) == 1]
    for row in rows:
        assert (np.array(row["bent"]) < row["linear"]).all(), row
        early = [k for k, t in enumerate(row["rounds"]) if t <= 32]
        assert row["step"] < 1 or all(row["outputs"][k] < row["linear"][k] for k in early), row
    pairs = 0
    for first, other in itertools.combinations(rows, 2):
        if all(first[name] == other[name] for name in script.POINT if name != "method"):
            for t in set(script.SHOWN) & set(first["rounds"]) & set(other["rounds"]):
                values = [
                    {name: row[name][row["rounds"].index(t)] for name in row if name.startswith("accuracy")}
                    for row in (first, other)
                ]
                exact, trained = (values[0][name] - values[1][name] for name in ("accuracy_limit", "accuracy"))
                if abs(exact) >= image_limits.APART:
                    pairs += 1
                    assert exact * trained > 0, (first, other, t)
    assert pairs >= 10


def test_rows_of_one_and_of_two_networks_agree(tmp_path, monkeypatch):
    """The rows of two networks a and b agree with the row of both.

    With the limit l, |a - b|^2 = |a - l|^2 + |b - l|^2 - 2 (a - l).(b - l) must hold.
    """
    problem = data.digits(60, target="one-hot", clients=3, partition="shards:2", test=20)
    for module in (image_limits, script):
        monkeypatch.setattr(module, "problem", lambda images: problem)
    image_limits.limit.cache_clear()
    monkeypatch.setattr(script, "ROWS", tmp_path / "rows.json")
    for words in ("fedavgm 60 1 48 0", "fedavgm 60 1 48 1", "fedavgm 60 1 48 0,1", "fedavgm 60 0.1 48 0"):
        for _ in range(2):  # The row of the second pass replaces that of the first.
            for row in script.growing(script.point(words), (1, 10, 32), None):
                script.keep(row)
    image_limits.limit.cache_clear()
    little, first, other, both = sorted(script.kept(), key=lambda row: (row["step"], script.order(row)))
    assert [row["seed"] for row in (first, other, both)] == [[0], [1], [0, 1]] and little["step"] == 0.1
    apart = np.square(first["outputs"]) + np.square(other["outputs"]) - 2 * np.array(both["common"])
    assert np.square(both["apart"]) == pytest.approx(apart, abs=1e-5)
    distances, accuracies, two, small = script.tables(script.kept())
    assert len(distances) == len(accuracies) == len(two) == 1 and len(small) == 4
    mean = np.mean([first["outputs"], other["outputs"]], axis=0)
    assert distances[0].split(" | ")[4] == "32" and distances[0].split(" | ")[5] == ", ".join(
        f"{value:.3f}"[int(value < 1) :] for value in mean
    )


def test_a_row_of_few_rounds_shows_its_last_one():
    (row, *_) = (row for row in script.kept() if row["rounds"][:5] == [1, 2, 3, 5, 7] and len(row["seed"]) == 1)
    names = ("outputs", "linear", "bent", "moved", "accuracy", "accuracy_linear", "accuracy_limit")
    short = row | {"rounds": row["rounds"][:4]} | {name: row[name][:4] for name in names} | {"step": 1.0}
    distances, accuracies, *_ = script.tables([short])
    first, last = (f"{row['outputs'][k]:.3f}"[1:] for k in (0, 3))
    assert distances[0].split(" | ")[4:6] == ["5", f"{first}, {last}"]
    assert accuracies[0].split(" | ")[3] == ", ".join(f"{row['accuracy'][k]:.3f}"[1:] for k in (0, 3))


def test_a_row_of_another_form_is_refused():
    for words in ("fedavg 2000 1 64", "fedsgd 2000 1 64 0", "fedavg 2000 1 64 0,1,2", "fedavg 2000 -1 64 0"):
        with pytest.raises(ValueError, match="write it like 'fedavg 10000 1 4096 0'"):
            script.point(words)
