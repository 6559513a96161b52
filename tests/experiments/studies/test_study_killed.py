"""Tests of `ntkfl study` with real processes: runs are killed, stopped, or started twice.

Some runs use a cluster whose workers die.
"""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from waiting import until

from experiments.studies.grid import chosen_grid
from experiments.studies.study_folder import StudyFolder

pytestmark = pytest.mark.slow
RUN = ("-m", "experiments", "study", "run")
SLOW = {"PENDULUM_SECONDS": "0.5"}  # Cells are so slow that most signals arrive while a cell is measured.


def finished(process, status=0):
    """Waits for a process to end, asserts its exit status, and returns what it wrote on stdout and stderr."""
    out, err = (stream.decode() for stream in process.communicate())
    assert process.returncode == status, err
    return out, err


def done(out):
    """Returns the number of finished cells in a folder."""
    return len(list((out / "cells").glob("*.safetensors"))) if (out / "cells").exists() else 0


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Returns the results of a run that nothing interrupts."""
    out = tmp_path_factory.mktemp("whole")
    subprocess.run([sys.executable, *RUN, Path(__file__).parent / "pendulum.py", "--out", out], check=True)
    return (out / "results.nc").read_bytes()


@pytest.fixture
def held(tmp_path):
    """Returns the environment of a study that cannot end, because its cells with pendulums of length 4 wait."""
    (tmp_path / "hold").write_text("")
    return {"HOLD": str(tmp_path / "hold")}


@pytest.fixture
def logged(tmp_path):
    """Returns the environment of a slow study that logs, and a function that counts how often each cell was
    measured.
    """
    log = tmp_path / "log"
    return SLOW | {"LOG": str(log)}, lambda: Counter(log.read_text().splitlines())


def test_killed_at_random_moments_it_ends_with_the_bits_of_an_uninterrupted_run(
    pendulum, tmp_path, started, logged, uninterrupted
):
    environment, measured = logged
    moments, out, kills = random.Random(0), tmp_path / "out", 4
    command = (*RUN, pendulum, "--processes", "2", "--out", out)
    for _ in range(kills):
        before = done(out)
        process = started(*command, **environment)
        until(lambda before=before: done(out) > before or done(out) == 16)
        time.sleep(moments.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        process.wait()
    finished(started(*command, **environment))
    assert (out / "results.nc").read_bytes() == uninterrupted
    # Only the cells that the two workers measured at the time of a kill are repeated.
    assert len(measured()) == 16 and sum(measured().values()) - 16 <= 2 * kills


def test_workers_do_not_outlive_a_killed_run(pendulum, tmp_path, started):
    process = started(
        *RUN, pendulum, "--processes", "2", "--out", tmp_path, PENDULUM_SECONDS="600", LOG=f"{tmp_path}/log"
    )
    until(lambda: (tmp_path / "log").exists() and len(children(process.pid)) == 2)
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not any(alive(worker) for worker in workers))


def children(pid):
    process = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in process.stdout.split()]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_ctrl_c_is_exit_status_130_and_keeps_what_is_done(pendulum, tmp_path, started, held):
    out = tmp_path / "out"
    process = started(*RUN, pendulum, "--processes", "2", "--out", out, **held)
    until(lambda: done(out) >= 3)
    process.send_signal(signal.SIGINT)
    _, err = finished(process, 130)
    kept = int(re.search(r"(\d+) of 16 cells are kept", err)[1])
    assert 3 <= kept <= done(out) < 16 and "Traceback" not in err


def test_two_runs_at_once_share_the_cells(pendulum, tmp_path, started, logged):
    environment, measured = logged
    command = (*RUN, pendulum, "--processes", "1", "--out", tmp_path / "out")
    runs = [started(*command, **environment) for _ in range(2)]
    for run in runs:
        out, _ = finished(run)
        assert "from 16 of 16 cells" in out
    assert len(measured()) == 16 and set(measured().values()) == {1}, "no cell was measured twice"


def test_a_run_says_how_far_it_is_on_a_pipe(pendulum, tmp_path, started):
    _, err = finished(started(*RUN, pendulum, "--processes", "2", "--out", tmp_path))
    lines = re.findall(r"(\d+) of 16 cells, 0 failed, (\d+) remaining", err)
    assert lines and all(int(first) + int(second) == 16 for first, second in lines)


# --- on a cluster


@pytest.fixture
def cluster(started):
    """Starts a scheduler and workers.

    Yields the scheduler's address and a function that starts one more worker.
    """
    quick_to_give_up = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    options = ("--no-dashboard", "--host", "127.0.0.1")
    scheduler = started("-m", "dask", "scheduler", "--port", "0", *options, **quick_to_give_up)
    address = next(match[1] for line in scheduler.stderr if (match := re.search(rb"Scheduler at: +(\S+)", line)))

    def worker(*more, **environment):
        options = ("--nworkers", "1", "--nthreads", "1", "--no-dashboard", *more)
        return started("-m", "dask", "worker", address.decode(), *options, **environment)

    return address.decode(), scheduler, worker


def test_a_cluster_gives_the_same_bytes_and_survives_the_death_of_a_worker(
    pendulum, tmp_path, started, cluster, logged, uninterrupted
):
    environment, measured = logged
    address, _, worker = cluster
    out = tmp_path / "out"
    workers = [worker("--no-nanny", **environment) for _ in range(2)]
    process = started(*RUN, pendulum, "--scheduler", address, "--out", out)
    until(lambda: done(out) >= 4)
    workers[0].send_signal(signal.SIGKILL)
    printed, _ = finished(process)
    assert "from 16 of 16 cells" in printed
    assert len(measured()) == 16 and sum(measured().values()) <= 16 + 4 + 1, (
        "the dead worker's cells alone are repeated"
    )
    assert (out / "results.nc").read_bytes() == uninterrupted


def test_a_cell_that_kills_its_workers_fails_and_the_rest_go_on(pendulum, tmp_path, started, cluster):
    address, _, worker = cluster
    (tmp_path / "trap").write_text("die")
    worker(TRAP=str(tmp_path / "trap"))
    out = tmp_path / "out"
    lengths = ("--lengths", "2,3", "--gravity", "9.81", "--seeds", "1")
    _, err = finished(started(*RUN, pendulum, *lengths, "--scheduler", address, "--out", out), 1)
    assert "1 of 2 cells failed" in err
    grid, store = chosen_grid(pendulum, {"lengths": "2,3", "gravity": "9.81", "seeds": "1"}), StudyFolder(out).store
    first, second = grid.cells()
    assert store.kept(first) and "again when nothing else was measured" in store.failure(second)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_the_cluster_to_its_user_with_nothing_more_to_do(
    sent, pendulum, tmp_path, started, cluster, held
):
    from distributed import Client

    address, scheduler, worker = cluster
    working, out = worker(**held), tmp_path / "out"
    process = started(*RUN, pendulum, "--scheduler", address, "--out", out)
    until(lambda: done(out) >= 3)
    process.send_signal(sent)
    _, err = finished(process, 128 + sent)
    kept = int(re.search(r"(\d+) of 16 cells are kept", err)[1])
    assert 3 <= kept == done(out) < 16
    assert "Traceback" not in err, err
    with Client(address, set_as_default=False) as client:
        until(lambda: client.run_on_scheduler(lambda dask_scheduler: not dask_scheduler.tasks))
        assert len(client.scheduler_info()["workers"]) == 1 and scheduler.poll() is working.poll() is None
    (tmp_path / "hold").unlink()
    printed, _ = finished(started(*RUN, pendulum, "--scheduler", address, "--out", out))
    assert "from 16 of 16 cells" in printed


def test_an_interrupt_while_it_connects(pendulum, tmp_path, started):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        process = started(*RUN, pendulum, "--scheduler", address, "--out", tmp_path)
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(1), "it has said who it is, and waits for an answer"
            process.send_signal(signal.SIGINT)
            _, err = finished(process, 130)
    assert "0 of 16 cells are kept" in err and "Traceback" not in err


def test_a_lost_scheduler_ends_the_run_and_keeps_what_is_done(pendulum, tmp_path, started, cluster, held):
    address, scheduler, worker = cluster
    worker(**held)
    process = started(*RUN, pendulum, "--scheduler", address, "--out", tmp_path / "out")
    until(lambda: done(tmp_path / "out") >= 2)
    scheduler.send_signal(signal.SIGKILL)
    _, err = finished(process, 2)
    assert "error: the connection to the scheduler is lost" in err and "cells are kept" in err
    assert "Traceback" not in err


def test_a_worker_with_other_code_is_refused(pendulum, tmp_path, started, cluster):
    address, _, worker = cluster
    study = tmp_path / "pendulum.py"
    study.write_text(Path(pendulum).read_text())
    worker()
    finished(started(*RUN, study, "--lengths", "1,2", "--scheduler", address, "--out", tmp_path / "first"))
    study.write_text(study.read_text() + "# changed, though the worker has read it\n")
    _, err = finished(started(*RUN, study, "--scheduler", address, "--out", tmp_path / "second"), 2)
    assert re.search(r"error: .*a worker on \S+ has version [0-9a-f]{12} .* the run has [0-9a-f]{12}", err)


def test_nobody_answers(pendulum, tmp_path, started):
    one_second = "from experiments.studies.running import dask_cluster; dask_cluster.SECONDS_TO_CONNECT = 1"
    main = f"{one_second}; from experiments.__main__ import main; main()"
    address = ("--scheduler", "tcp://127.0.0.1:9")
    _, err = finished(started("-c", main, *RUN[2:], pendulum, *address, "--out", tmp_path), 2)
    assert "error: no Dask scheduler answers at tcp://127.0.0.1:9" in err and "Traceback" not in err
