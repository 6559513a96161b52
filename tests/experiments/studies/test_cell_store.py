"""Tests of the store that keeps a study's cells (its single measurements) on disk.

Cells are read as written, and incomplete cells are found. Killed writers leave no incomplete cells, and processes claim
cells so that none is measured twice.
"""

import errno
import json
import os
import random
import signal
import time
from unittest.mock import Mock

import numpy as np
import pytest
from waiting import until

from experiments.studies.running import cell_store
from experiments.studies.running.cell_store import Cell, CellStore, Contents, DamagedCell, packed, unpacked

CELL, OTHER = Cell("toy", {"width": 64, "seed": 1}, "v1"), Cell("toy", {"width": 64, "seed": 2}, "v1")
ARRAYS = {"loss": np.array(np.pi), "curve": np.array([1.0, -0.0, np.inf, np.nan, 5e-324]), "none": np.zeros((0, 2))}
DATA = packed(CELL, Contents(ARRAYS, 0.5))


def same(arrays, wanted):
    return arrays.keys() == wanted.keys() and all(
        arrays[name].shape == wanted[name].shape and arrays[name].tobytes() == wanted[name].tobytes() for name in wanted
    )


def test_what_is_packed_is_unpacked_bit_for_bit():
    cell = unpacked(DATA, CELL)
    assert same(cell.arrays, ARRAYS) and cell.seconds == 0.5


def test_any_changed_byte_is_found():
    for place in range(len(DATA)):
        changed = bytearray(DATA)
        changed[place] ^= 0x10
        with pytest.raises(DamagedCell):
            unpacked(bytes(changed), CELL)


def test_any_cut_is_found():
    for length in range(len(DATA)):
        with pytest.raises(DamagedCell):
            unpacked(DATA[:length], CELL)


@pytest.mark.parametrize("other", [OTHER, Cell("toy", CELL.point, "v2"), Cell("boy", CELL.point, "v1")])
def test_another_cell_is_found(other):
    assert other.key != CELL.key
    with pytest.raises(DamagedCell, match="another cell"):
        unpacked(DATA, other)


def test_the_key_is_of_the_inputs_alone_and_knows_types():
    assert Cell("toy", {"seed": 1, "width": 64}, "v1").key == CELL.key
    assert Cell("toy", {"width": 64.0, "seed": 1}, "v1").key != CELL.key


def test_the_store_keeps_cells_and_names_the_damaged(tmp_path):
    store = CellStore(tmp_path)
    assert store.kept(CELL) is None
    store.keep(CELL, DATA)
    assert same(store.kept(CELL).arrays, ARRAYS) and store.kept(OTHER) is None
    store.path(CELL).write_bytes(DATA[:-1])
    with pytest.raises(DamagedCell, match=f"{CELL.key}.*width = 64, seed = 1"):
        store.kept(CELL)
    with pytest.raises(DamagedCell):
        store.keep(OTHER, DATA)  # A damaged answer from another machine is never stored.
    assert store.kept(OTHER) is None


def test_a_failure_is_kept_until_the_cell_is_done(tmp_path):
    store = CellStore(tmp_path)
    assert store.failure(CELL) is None
    store.keep_failure(CELL, "Traceback\nValueError: no\n")
    assert store.failure(CELL) == "Traceback\nValueError: no\n" and store.kept(CELL) is None
    store.keep(CELL, DATA)
    assert store.failure(CELL) is None


def test_a_full_disk_names_the_file_and_leaves_what_was_there(tmp_path, monkeypatch):
    store = CellStore(tmp_path)
    store.keep(CELL, DATA)

    monkeypatch.setattr(cell_store.os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    for cell in (CELL, OTHER):
        with pytest.raises(OSError, match=f"cannot keep .*{cell.key}.*No space left") as failure:
            store.keep(cell, packed(cell, Contents(ARRAYS, 1.0)))
        assert failure.value.errno == errno.ENOSPC
    assert same(store.kept(CELL).arrays, ARRAYS) and store.kept(OTHER) is None
    assert len(list((tmp_path / "cells").iterdir())) == 1, "the part that was written is gone"


WRITERS = """
import sys
from pathlib import Path
from experiments.studies.running.cell_store import write_json
for number in range(200):
    write_json(Path(sys.argv[1]) / "study.json", [number] * 100)
"""


def test_a_file_that_nobody_claims_may_have_two_writers(tmp_path, started):
    writers = [started("-c", WRITERS, tmp_path) for _ in range(2)]
    for writer in writers:
        assert writer.wait() == 0, writer.stderr.read().decode()
    assert json.loads((tmp_path / "study.json").read_text()) == [199] * 100
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]


def test_a_cell_that_was_long_to_measure_is_flushed_a_short_one_is_not(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(cell_store.os, "fsync", flushed.append)
    for seconds, count in ((0.001, 0), (1.0, 1)):
        CellStore(tmp_path).keep(CELL, packed(CELL, Contents(ARRAYS, seconds)))
        assert len(flushed) == count


WRITER = """
import itertools, sys
from pathlib import Path
import numpy as np
from experiments.studies.running.cell_store import Cell
from experiments.studies.running.cell_store import Contents, packed
from experiments.studies.running.cell_store import CellStore
store = CellStore(Path(sys.argv[1]))
for seed in itertools.count():
    cell = Cell("toy", {"seed": seed % 50}, "v1")
    with store.claim(cell) as mine:
        if mine:
            store.keep(cell, packed(cell, Contents({"square": np.full(3000, float(seed % 50) ** 2)}, 1.0)))
"""


@pytest.mark.slow  # The test starts six processes.
def test_two_writers_killed_at_random_moments_leave_no_half_cell(tmp_path, started):
    moments = random.Random(0)
    store, cells = CellStore(tmp_path), [Cell("toy", {"seed": seed}, "v1") for seed in range(50)]
    for _ in range(3):
        writers = [started("-c", WRITER, tmp_path) for _ in range(2)]
        until(lambda: store.path(cells[3]).exists())
        time.sleep(moments.uniform(0, 0.1))
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.wait()
        kept = {cell.point["seed"]: store.kept(cell) for cell in cells}
        assert kept[3] is not None
        for seed, there in kept.items():
            assert there is None or (there.arrays["square"] == seed**2).all()
        store.path(cells[3]).unlink()


HOLDER = """
import sys
from pathlib import Path
from experiments.studies.running.cell_store import Cell
from experiments.studies.running.cell_store import CellStore
with CellStore(Path(sys.argv[1])).claim(Cell("toy", {"width": 64, "seed": 1}, "v1")) as mine:
    print(mine, flush=True)
    sys.stdin.read()
"""


def test_a_claim_excludes_other_processes_and_ends_with_its_process(tmp_path, started):
    store = CellStore(tmp_path)
    holder = started("-c", HOLDER, tmp_path)
    assert holder.stdout.readline() == b"True\n"
    with store.claim(CELL) as mine, store.claim(OTHER) as other:
        assert (mine, other) == (False, True)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with store.claim(CELL) as mine:
        assert mine
        late = started("-c", HOLDER, tmp_path)
        assert late.stdout.readline() == b"False\n"
