"""Tests of the picture for sixty thousand images, which is drawn from stored numbers.

The script that measured the numbers is run here on small data.
"""

import json
from pathlib import Path

import numpy as np
import sixty_thousand
from rows_of_pages import lines_of

from experiments.pictures import as_bytes, themed
from ntkfl import data, gram
from ntkfl.limit_curves import limit_curves

DOCS = Path(__file__).parents[2] / "docs"


def test_the_picture_is_that_of_the_numbers():
    curves = json.loads((DOCS / "sixty_thousand.json").read_text(encoding="utf-8"))
    figure = sixty_thousand.drawn(curves)
    assert themed(as_bytes(figure, "svg", "sixty-thousand")) == (DOCS / "sixty_thousand.svg").read_bytes()
    curves[0]["test"][0] += 0.01
    assert lines_of(sixty_thousand.drawn(curves)) != lines_of(figure)


def test_a_run_is_kept_beside_the_rounds_that_it_does_not_have(tmp_path):
    problem = data.digits(60, target="one-hot", clients=3, partition="shards:2", test=20)
    run = limit_curves(problem, [0, 2], method="fedavgm", options={"momentum": 0.9}).to_dict()
    old = {"partition": "shards:2", "method": "fedavgm", "options": {"momentum": 0.9}, "rounds": [1, 2]}
    old |= {"residual": [0.5, 9.0], "train": [0.25, 9.0], "test": [None, 9.0]}
    other = old | {"partition": "iid"}
    before, curve = sixty_thousand.kept([other, old], [run])
    assert before == other
    point = run["points"][1]
    assert curve["rounds"] == [1, 2] and curve["residual"] == [0.5, round(point["residual"], 4)]
    assert curve["train"] == [0.25, round(point["train"], 4)] and curve["test"] == [None, round(point["test"], 4)]


def test_of_tuned_runs_the_best_of_each_method_is_drawn():
    plain = {"partition": "iid", "method": "fedavg", "options": {}, "residual": [0.9, 0.7]}
    tuned = [
        plain | {"options": {"server_rate": rate}, "residual": [1, r]} for rate, r in ((2, 0.6), (3, 0.5), (4, 0.8))
    ]
    tuned = [curve | {"tuned": True} for curve in tuned]
    other = tuned[2] | {"method": "scaffold"}
    assert sixty_thousand.shown([plain, *tuned, other]) == [plain, tuned[1], other]
    problem = data.digits(60, target="one-hot", clients=3, test=20)
    run = limit_curves(problem, [0, 2], method="fedavg", options={"server_rate": 1.5}).to_dict()
    run["data"] = "partition='iid'"
    (curve,) = sixty_thousand.kept([], [run], tuned=True)
    assert curve["tuned"] and sixty_thousand.kept([curve], [run], tuned=True) == [curve]
    figure = sixty_thousand.drawn([curve])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["FedAvg, tuned"]


def test_kernels_of_low_rank_are_held_against_the_rounds_that_are_kept(tmp_path):
    """Limits from kernels of low rank are compared with the stored rounds of the exact kernel.

    This test computes the same numbers with whole matrices, one local step after the other.
    """
    problem = data.digits(80, target="one-hot", clients=4, test=30)
    states = [tmp_path / "one.npz", tmp_path / "two.npz"]
    for state in states:
        limit_curves(problem, [0, 1, 3], method="fedavg", tiles="float64", keep=state)
    assert list(sixty_thousand.apart(*states)) == [(t, 0.0, 0.0) for t in (0, 1, 3)]
    names = ["80 landmarks", "20 landmarks", "4 neurons", "50 directions"]
    head, exact, *rows = sixty_thousand.against_exact(problem, states[0], names, (1, 3))
    whole = gram.infinite(problem.x)
    step = 1 / max(np.linalg.eigvalsh(whole[np.ix_(owned, owned)])[-1] for owned in problem.members)

    def rounds(h):
        residual = problem.y.copy()
        for t in range(1, 4):
            moved = np.zeros_like(residual)
            for owned in problem.members:
                left = residual[owned]
                for _ in range(5):
                    moved[owned] += step * left
                    left = left - step * h[np.ix_(owned, owned)] @ left
            residual = residual - h @ moved / 4
            if t in (1, 3):
                yield problem.y - residual

    right = [(y.argmax(1) == problem.y.argmax(1)).mean() for y in rounds(whole)]
    assert exact[head.index("train 1") :][:2] == [f"{share:.4f}" for share in right]
    assert [float(cell) for cell in rows[0][1:5]] == [0, 0, 0, 0]
    for name, row in zip(names[1:], rows[1:], strict=True):
        kernel = sixty_thousand.KERNELS[name.split()[1]](problem, int(name.split()[0]))
        off = [a - b for a, b in zip(rounds(kernel(problem.x)), rounds(whole), strict=True)]
        assert row[1:3] == [f"{np.linalg.norm(some) / np.linalg.norm(problem.y):.4f}" for some in off]
        assert row[3:5] == [f"{np.abs(some).max():.3f}" for some in off]
        assert float(row[1]) > 0.001
