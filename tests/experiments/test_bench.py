"""`ntkfl bench`: candidates agree on small cases, each in its own process; tables, ratios, exponents, earlier runs."""

import json
import math
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from experiments.benchmarks.bench_report import as_json, from_json, page
from experiments.benchmarks.runner import Timing, exponent, measured
from experiments.benchmarks.workload import Candidate, Workload
from experiments.benchmarks.workloads import catalogue
from experiments.command_line import app

SMALL = {
    "initial-gram": {"n": 12, "d": 3, "m": 64},
    "kernel-regime": {"n": 12, "N": 3, "T": 40},
    "infinite-gram": {"n": 30, "d": 3},
    "smallest-eigenvalue": {"n": 30, "d": 40},
    "algorithm1": {"n": 12, "d": 3, "m": 32, "N": 3},
}
CUBIC = Workload(
    "cubic",
    "grows like n^3",
    ({"n": 10, "d": 1}, {"n": 20, "d": 1}, {"n": 20, "d": 2}),
    (Candidate("ntkfl", lambda sizes: lambda: 0, "ours"), Candidate("other", lambda sizes: lambda: 0, needs="nothing")),
    along="n",
)


def timings():
    ours = [Timing("cubic", s, "ntkfl", "ours", 1e-3 * s["n"] ** 3, 2.0, 10**9, 0.0) for s in CUBIC.sizes]
    peers = [Timing("cubic", s, "other", "limit", 2e-3 * s["n"] ** 3, 1.0, 2 * 10**9, 1e-9) for s in CUBIC.sizes[:2]]
    return [*ours, *peers, Timing("cubic", CUBIC.sizes[2], "other", "limit", skipped="nothing is not installed")]


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_all_candidates_of_a_workload_find_the_same(name):
    workload = catalogue()[name]
    found = measured(workload, SMALL[name], repetitions=2, threads=1)
    assert [timing.candidate for timing in found] == [candidate.name for candidate in workload.candidates]
    for timing in found:
        assert timing.skipped or (timing.clock > 0 and timing.memory > 10**7)
        assert timing.skipped or timing.role == "limit" or timing.off <= workload.tolerance


@pytest.mark.slow
def test_a_candidate_that_finds_something_else_is_not_believed():
    workload = catalogue()["smallest-eigenvalue"]
    strict = replace(
        workload,
        candidates=tuple(replace(c, role="ours" if c.role == "limit" else "peer") for c in workload.candidates),
    )
    with pytest.raises(RuntimeError, match=r"is off by .*; 1e-06 is allowed"):
        measured(strict, SMALL["smallest-eigenvalue"], repetitions=1, threads=1)


def test_every_workload_has_one_row_of_ours_and_its_sizes_differ():
    assert set(catalogue()) == set(SMALL)
    for workload in catalogue().values():
        assert [c.role for c in workload.candidates].count("ours") == 1
        assert len({json.dumps(sizes) for sizes in workload.sizes}) == len(workload.sizes)
        assert all(workload.along in sizes for sizes in workload.sizes)


def test_the_exponent_is_fitted_to_cases_that_differ_in_one_size():
    slope, cases = exponent(timings(), CUBIC, "ntkfl")
    assert math.isclose(slope, 3)
    assert cases == 2
    assert exponent(timings()[:1], CUBIC, "ntkfl") is None


def test_the_page_has_ratios_and_says_what_was_skipped():
    text = page([CUBIC], timings(), (), 3, 2)
    assert "| n=10, d=1 | other | 2 | 1 | 2.00 | 2.00 (0.50) | 1.00 (1.00) |  |" in text
    assert "| n=20, d=2 | other | nothing is not installed |" in text
    assert "grows like n^3.00 (2 cases)" in text
    faster = [replace(timing, clock=timing.clock / 4) for timing in timings()]
    assert "| 4.00 (1.00) |" in page([CUBIC], faster, timings(), 3, 2)


def test_numbers_survive_their_file():
    again = from_json(json.loads(as_json(timings(), 3, 2)))
    assert repr(again) == repr(timings())
    with pytest.raises(ValueError, match="no file of `ntkfl bench --json`"):
        from_json({"format": "something"})


def test_an_unknown_workload_is_refused_with_the_nearest():
    done = CliRunner().invoke(app, ["bench", "intial-gram"])
    assert done.exit_code == 2
    assert "initial-gram" in done.output
