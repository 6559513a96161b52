"""Tests of `ntkfl bench`: implementations of one task agree on small cases, each in its own process.

A workload is such a task, and a candidate is one implementation of it. Tables, ratios, fitted exponents and comparisons
with earlier runs are tested too.
"""

import json
import math
import sys
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from typed import command

from experiments.benchmarks import elsewhere, runner
from experiments.benchmarks.candidate import compared, timed
from experiments.benchmarks.runner import Timing, _off, _skipped, as_json, bench_page, exponent, from_json, measured
from experiments.benchmarks.workload import Candidate, Timed, Workload
from experiments.benchmarks.workloads import catalogue

SMALL = {
    "initial-gram": {"n": 12, "d": 3, "m": 64},
    "kernel-regime": {"n": 12, "N": 3, "T": 40},
    "infinite-gram": {"n": 30, "d": 3},
    "gram-tiles": {"n": 30, "d": 3},
    "tiles-product": {"n": 30},
    "central-descent": {"n": 40, "d": 3},
    "smallest-eigenvalue": {"n": 30, "d": 40},
    "empirical-kernel": {"n": 6, "d": 3, "m": 8, "C": 2},
    "exact-barrier": {"n": 30, "units": 8},
    "loss-plane": {"n": 30, "units": 8, "points": 5},
    "cnn-rounds": {"n": 40, "N": 3},
    "study-cells": {"cells": 3, "MiB": 1},
    "algorithm1": {"n": 12, "d": 3, "m": 32, "N": 3, "1/eta": 500},
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
# neural-tangents causes this warning.
@pytest.mark.filterwarnings("ignore:.*requires ndarray or scalar arguments:DeprecationWarning")
@pytest.mark.parametrize("name", SMALL)
def test_all_candidates_of_a_workload_find_the_same(name):
    """All candidates of a workload agree when they run in this process.

    The next tests start a process for each candidate, as the benchmark does.
    """
    workload = catalogue()[name]
    here = [candidate for candidate in workload.candidates if not _skipped(candidate, SMALL[name], {})]
    results = {candidate.name: compared(timed(candidate.build(SMALL[name])).result) for candidate in here}
    for candidate in here:
        allowed = candidate.tolerance or workload.tolerance
        assert candidate.role == "limit" or _off(results[candidate.name], results[workload.ours.name]) <= allowed


@pytest.mark.slow
def test_each_candidate_is_measured_in_a_process_of_its_own():
    workload, sizes = catalogue()["tiles-product"], SMALL["tiles-product"]
    timings = measured(workload, sizes, repetitions=2, threads=1)
    assert [timing.candidate for timing in timings] == [candidate.name for candidate in workload.candidates]
    for timing, candidate in zip(timings, workload.candidates, strict=True):
        assert timing.skipped or (timing.clock > 0 and timing.memory > 10**7)
        assert timing.skipped or timing.role == "limit" or timing.off <= (candidate.tolerance or workload.tolerance)


def test_the_initial_gram_on_devices_is_ours():
    candidates = {candidate.name: candidate for candidate in catalogue()["initial-gram"].candidates}
    drawn, on_devices = (
        candidates[name].build(SMALL["initial-gram"])()
        for name in ("ntkfl, weights drawn too", "ntkfl, drawn and on devices")
    )
    assert np.array_equal(drawn, on_devices)


@pytest.mark.slow
def test_a_candidate_that_finds_something_else_is_not_believed():
    workload = catalogue()["smallest-eigenvalue"]
    strict = replace(
        workload,
        candidates=tuple(replace(c, role="ours" if c.role == "limit" else "peer") for c in workload.candidates),
    )
    with pytest.raises(RuntimeError, match=r"is off by .*; 1e-06 is allowed"):
        measured(strict, SMALL["smallest-eigenvalue"], repetitions=1, threads=1)


SQUARES = """
import json, sys
import numpy as np
folder, repetitions, power = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
np.save(folder + "/result.npy", np.load(folder + "/work.npz")["x"] ** power)
json.dump([[2.0**k, 3.0 * k] for k in range(repetitions)], open(folder + "/times.json", "w"))
"""


def test_a_peer_in_another_environment_reports_its_own_seconds(tmp_path, monkeypatch):
    """A library in another environment reports the times of its own clock.

    The repetitions of the benchmark in that environment end at 1, 2, 4 and 8 s. The repetitions after the first take 1,
    2 and 4 s, and the median of these times counts.
    """
    monkeypatch.setattr(elsewhere, "HERE", tmp_path)
    monkeypatch.setenv(elsewhere.PYTHON, sys.executable)
    (tmp_path / "squares.py").write_text(SQUARES)
    given = {"x": np.arange(3.0)}
    timing = timed(lambda: elsewhere.timed_there("squares", given, 4, "2", counted=10))
    assert timing.result.tolist() == [0, 1, 4] and (timing.clock, timing.processor) == (20, 30)


def test_what_a_call_measures_itself_goes_before_the_clock():
    assert timed(lambda: Timed(7, 1e6, 2e6)) == (7, 1e6, 2e6)
    plain = timed(lambda: 7)
    assert plain.result == 7 and 0 <= plain.clock < 1e3


def test_peers_without_an_interpreter_are_skipped_with_the_command_that_gets_them():
    skipped = _skipped(Candidate("pfl", lambda sizes: lambda: 0, peer="pfl"), {"n": 1}, {})
    assert skipped == "no --peer-python pfl=PATH"
    for peer in {c.peer for workload in catalogue().values() for c in workload.candidates if c.peer}:
        assert "pip install" in elsewhere.how_to_get(peer)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("pfl", "there is no such interpreter"),
        ("plf=/bin/sh", "it must be PEER=PATH with PEER one of pfl, flower, fedjax"),
        ("pfl=/nowhere/python", "--peer-python pfl is '/nowhere/python'; there is no such interpreter"),
    ],
)
def test_a_peer_that_is_not_there_is_refused(pair, message):
    with pytest.raises(ValueError, match=message):
        elsewhere.interpreters([pair])
    done = command("bench", "algorithm1", "--smallest", "--peer-python", pair)
    assert done.exit_code == 2


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
    text = bench_page([CUBIC], timings(), (), 3, 2)
    assert "| n=10, d=1 | other | 2 | 1 | 2.00 | 2.00 (0.50) | 1.00 (1.00) |  |" in text
    assert "\nLeft out: other, first at n=20, d=2 (nothing is not installed).\n" in text
    assert "grows like n^3.00 (2 cases)" in text
    faster = [replace(timing, clock=timing.clock / 4) for timing in timings()]
    assert "| 4.00 (1.00) |" in bench_page([CUBIC], faster, timings(), 3, 2)


def test_numbers_survive_their_file():
    again = from_json(json.loads(as_json(timings(), 3, 2)))
    assert repr(again) == repr(timings())
    with pytest.raises(ValueError, match="no file of `ntkfl bench --json`"):
        from_json({"format": "something"})


def test_an_unknown_workload_is_refused_with_the_nearest():
    done = command("bench", "intial-gram")
    assert done.exit_code == 2
    assert "initial-gram" in done.output


class FakeProcess:
    """A stand-in for the process of a candidate. Its k-th run takes k * `unit` seconds."""

    died, numbers = "", (1.0,)

    def __init__(self, unit):
        self.times = iter({"clock": unit * k, "processor": 0.0, "memory": 1} for k in range(1, 9))
        self.first = self.once()

    def once(self):
        return next(self.times)


def test_the_first_time_counts_only_where_the_work_is_long(monkeypatch):
    monkeypatch.setattr(runner, "_process", lambda *_: nullcontext(FakeProcess(unit)))
    # The results are the medians of the times 2, 3, 4 and of the times 1, 2, 3.
    for unit, middle in ((runner.LONG / 2, 3), (2 * runner.LONG, 2)):
        ours, _ = measured(CUBIC, CUBIC.sizes[0], repetitions=3, threads=1)
        assert ours.clock == middle * unit


def test_an_interrupted_bench_reports_the_sizes_that_are_done(tmp_path, monkeypatch):
    done = timings()[:1]

    def interrupted(*arguments):
        if done:
            return [done.pop()]
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "measured", interrupted)
    monkeypatch.setattr("experiments.benchmarks.workloads.catalogue", lambda: {"cubic": CUBIC})
    result = command("bench", "--json", tmp_path / "b.json")
    assert result.exit_code == 130 and "| n=10, d=1 | ntkfl |" in result.stdout, result.output
    assert len(from_json(json.loads((tmp_path / "b.json").read_text()))) == 1
