"""Tests of compiled machine code: it is kept in the folder that the user names.

Later processes compute the same bits with it.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from numba.core.caching import NullCache

from ntkfl.compiled_once import machine_code

USING_ALL = """
import numpy as np
from ntkfl import Setup, data, simulate
from ntkfl.algorithm1 import client_threads, neuron_passes, switch_passes
from ntkfl.gram import limit, packing

problem, setup = data.sphere(8, 3, clients=2), Setup(width=40, rounds=3, local_steps=2, eta_local=.5)
for how in ({}, {"movements": False, "grouped": True}, {"movements": False, "dtype": "float32"}):
    run = simulate(problem, setup, compiled=True, **how)
    print("outputs", run.outputs.tobytes().hex())
words = packing.active_words(problem.x, np.random.default_rng(0).standard_normal((100, 3)))
print("outputs", words.tobytes().hex())
passes = [*packing.kernels(), limit.entries(), *client_threads.passes("float64"), *switch_passes.passes("float64")]
passes += [getattr(neuron_passes, name) for name in ("summed_up", "largest", "begin", "step", "end")]
print("compiled", sum(sum(one.stats.cache_misses.values()) for one in passes))
print("read", sum(sum(one.stats.cache_hits.values()) for one in passes), "of", len(passes))
"""


def run_with(folder):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    answer = subprocess.run([sys.executable, "-c", USING_ALL], env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return [line for line in answer.stdout.splitlines() if line.startswith("outputs")], answer.stdout.splitlines()[-2:]


@pytest.mark.slow  # The test starts two processes, of which one compiles fifteen functions.
def test_a_second_process_reads_what_the_first_compiled_and_computes_the_same_bits(tmp_path):
    first, counts = run_with(tmp_path)
    assert counts == ["compiled 15", "read 0 of 15"]
    files = sorted(tmp_path.rglob("*.nbc"))
    second, counts = run_with(tmp_path)
    assert counts == ["compiled 0", "read 15 of 15"]
    assert first == second and len(first) == 4
    assert sorted(tmp_path.rglob("*.nbc")) == files != []


def test_where_the_user_names_no_folder_nothing_is_kept(monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)

    @machine_code("float64(float64[::1])")
    def total(values):
        result = 0.0
        for value in values:
            result += value
        return result

    assert total(np.arange(5.0)) == 10 and total.nopython_signatures
    assert isinstance(total._cache, NullCache)
