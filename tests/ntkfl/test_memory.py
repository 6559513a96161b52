"""Tests of the checks of memory before work begins: which memory counts as free, how much is needed, and refusals."""

import resource
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from ntkfl import memory, simulate
from ntkfl.algorithm1.group_sizes import neurons_bytes, padded_samples, record_bytes
from ntkfl.data import sphere
from ntkfl.initialisation import draw, drawing_bytes
from ntkfl.memory import TooLittleMemory, available, largest, require, shown
from ntkfl.problem import Setup

MEMINFO = "MemTotal:       1000 kB\nMemFree:    10 kB\nMemAvailable:   500 kB\n"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Makes an invented machine, whose /proc and control groups are in a folder."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    write(tmp_path, "proc/meminfo", MEMINFO)
    return tmp_path


def write(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_what_is_free_counts_and_not_what_there_is(machine):
    assert available() == 500 * 1024


def test_a_group_of_either_version_counts_less_what_it_uses_but_not_its_page_cache(machine):
    write(machine, "proc/self/cgroup", "0::/a/b\n")
    write(machine, "groups/a/b/memory.max", "max\n")
    write(machine, "groups/a/memory.max", "300000\n")
    write(machine, "groups/a/memory.current", "100000\n")
    write(machine, "groups/a/memory.stat", "anon 1\ninactive_file 40000\n")
    assert available() == 240000
    write(machine, "proc/self/cgroup", "5:cpu:/x\n4:memory:/not/here\n")
    write(machine, "groups/memory/memory.limit_in_bytes", "200000\n")
    write(machine, "groups/memory/memory.usage_in_bytes", "100000\n")
    write(machine, "groups/memory/memory.stat", "total_inactive_file 7\n")
    assert available() == 100007


def test_the_limit_of_the_address_space_counts(machine, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (10**6, 10**6))
    write(machine, "proc/self/statm", "10 5 1 1 0 1 0\n")
    assert available() == min(500 * 1024, 10**6 - 10 * resource.getpagesize())


def test_without_proc_the_whole_machine_counts(machine):
    (machine / "proc/meminfo").unlink()
    assert 2**26 < available() < 2**50


def test_a_refusal_says_the_figure_the_limit_and_what_would_fit():
    with pytest.raises(
        TooLittleMemory,
        match=r"^work takes 8 kB of memory and 900 B are available; width up to 11 or rounds up to 1 would fit; rest$",
    ):
        require("work", lambda width, rounds: 8 * width * rounds, 900, "rest", width=100, rounds=10)
    with pytest.raises(MemoryError, match=r"work takes 2\.1 GB of memory and 2 GB are available$"):
        require("work", lambda n: 2.1e9 + n, 2e9, n=1)
    require("work", lambda n: 900 * n, 900, n=1)


@pytest.mark.parametrize("limit", [0, 5, 99, 100, 12345])
def test_the_largest_that_fits_fits_and_the_next_does_not(limit):
    fitting = largest(lambda k: k * k, 200, limit)
    assert fitting**2 <= limit
    assert fitting == 199 or (fitting + 1) ** 2 > limit


def test_bytes_are_shown_with_their_unit():
    assert [shown(b) for b in (5, 999.4, 1234, 8e12, 3e25)] == ["5 B", "999 B", "1.23 kB", "8 TB", "3e+07 EB"]


def test_what_cannot_fit_is_refused_before_the_work():
    problem = sphere(n=8, d=8)
    with pytest.raises(TooLittleMemory, match=r"takes .* of memory and .* are available; width up to \d+ would fit"):
        simulate(problem, Setup(width=10**12))
    with pytest.raises(TooLittleMemory, match=r"takes .* width up to"):
        simulate(problem, Setup(width=10**12), movements=False)
    with pytest.raises(TooLittleMemory, match=r"the record of the run .* rounds up to"):
        simulate(problem, Setup(rounds=10**12))
    with pytest.raises(TooLittleMemory, match=r"drawing the network .* width up to"):
        draw(10**12, 8, 0)


def peak(work):
    tracemalloc.start()
    work()
    try:
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_estimate_of_a_draw_is_what_it_takes():
    draw(1024, 4, 0)
    assert 0.7 < peak(lambda: draw(2**17, 4, 0)) / drawing_bytes(2**17, 4) <= 1.1


@pytest.mark.parametrize(("width", "rounds"), [(2**14, 2), (64, 3000)])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_estimate_of_a_run_is_what_it_takes(width, rounds, compiled):
    problem, setup = sphere(n=24, d=4), Setup(width=width, rounds=rounds)
    weights = draw(width, 4, 0)
    simulate(problem, Setup(width=64, rounds=1), compiled=compiled)
    taken = peak(lambda: simulate(problem, setup, weights, compiled=compiled))
    samples = padded_samples(problem)
    expected = neurons_bytes(samples, 4, width) + record_bytes(samples, rounds, setup.local_steps)
    assert 0.5 < taken / expected <= 1.1


ALLOWED = """
import resource, sys
import ntkfl
from ntkfl.memory import available
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
print(available() < int(sys.argv[1]))
try:
    ntkfl.simulate(ntkfl.data.sphere(), ntkfl.Setup(width=10**8, rounds=1))
except ValueError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_process_of_limited_address_space_refuses_instead_of_failing():
    process = subprocess.run(
        [sys.executable, "-c", ALLOWED, str(6 * 2**30)], capture_output=True, text=True, check=True
    )
    said = process.stdout.splitlines()
    assert said[0] == "True"
    assert "width up to" in said[1]
    assert np.isfinite(float(said[1].split("width up to ")[1].split()[0]))
