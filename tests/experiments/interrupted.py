"""Interrupts, at random moments, every command that works longer than a second, and records how the command ends.

`python tests/experiments/interrupted.py --tries 10` prints the whole table; `test_interrupts.py` runs a part of it.
Each command runs in a session of its own. In the command's process the garbage collector is made to call its callbacks
at almost every allocation. The reason is that JAX has such a callback, and that an interrupt during a callback is lost.
Objects that survive are soon excluded from collection, because otherwise the collector's traversals would double the
time of the imports.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from tempfile import TemporaryDirectory

import numpy as np

ROOT = Path(__file__).parents[2]
BUSY_COLLECTOR = """
import gc, itertools

calls = itertools.count(1)
gc.callbacks.append(lambda phase, _: None if next(calls) % 64 else gc.freeze())
gc.set_threshold(3, 1, 1)
gc.set_threshold = lambda *_: None  # commands make collections rare when they start
"""
PATIENCE = 300.0  # seconds after which an interrupt counts as ignored, however busy the machine is
EARLY = 2.5  # Half of the interrupts come within this many seconds of the start, mostly during imports.
LATE = 1.5  # The others come within this many seconds of the first printed word.
SILENT = 5.0  # If a command prints nothing, LATE counts from this many seconds after the start, when the command works.

# Each command works for hours unless it is stopped. {0} is its folder, {1} the folder with the files of `prepared`, and
# {2} the address of its cluster.
COMMANDS: dict[str, str] = {
    "train": "train feddyn --samples 60 --test 20 --clients 3 --model mlp:4 --rounds 1000000 --out {0}/run",
    "verify": "verify fl-ntk/A.1 fl-ntk/C.6 --trials 1000000 --processes 1 --json {0}/v.json",
    "verify, 2 processes": "verify fl-ntk/A.1 fl-ntk/C.6 fedgucci/F4 --trials 1000000 --processes 2 --json {0}/v.json",
    "verify --meta": "verify fl-ntk/A.1 fl-ntk/C.6 --trials 100000 --meta",
    "findings": "findings --measure --output {0}/page.md",
    "study run": "study run asymmetry --processes 2 --out {0}/study",
    "study run, a cluster": "study run asymmetry --scheduler {2} --out {0}/study",
    "attack": "attack fl-ntk/X.1 fl-ntk/C.6 --examples 1000000 --budget 36000 --folder {0}",
    "certify --watch": "certify --watch --width 400 --eta-local 1e-6 --every 20 --rounds 1000000 --json {0}/c.json",
    "certify --search": "certify --search --after 100000 --every 50",
    "simulate": "simulate --rounds 3000000 --width 64",
    "miniature": "miniature all --seeds 1000 --out {0}/cells",
    "bench": "bench infinite-gram smallest-eigenvalue --repetitions 1000000 --smallest",
    "gram": "gram --data sphere --n 6500",
    "rate": "rate --data sphere --n 5000",
    "fastest": "fastest --data sphere --n 1500",
    "barrier": "barrier {1}/a.npz {1}/b.npz --data {1}/data.npz",
    "conform run": "conform run {1}/adapter.py --limit 1000000",
    "connectivity-table": "connectivity-table --steps 10000000",
}
TRIES_FACTOR = {"train": 3}  # How many times as often as other commands a command is tried.


@dataclass(frozen=True)
class Try:
    """One interrupted command: the signal and its time, its end, its output, and the processes that it left running."""

    command: str
    sent: signal.Signals
    to_group: bool
    after: float
    over: bool  # whether the command had ended before the signal came
    ignored: bool
    status: int
    took: float
    output: str
    left: tuple[str, ...]

    @property
    def wrong(self) -> Iterator[str]:
        """Yields a name for each fault in how the command ended."""
        if self.over:
            return
        if self.ignored:
            yield "ignored"
        elif self.status != 128 + self.sent:
            yield "wrong status"
        if "Traceback" in self.output or "Exception ignored" in self.output:
            yield "traceback"
        if self.left:
            yield "orphans"


@dataclass(frozen=True)
class Given:
    """What the commands get: a folder of files, and the address of a Dask scheduler that has a worker."""

    folder: Path
    scheduler: str


@contextmanager
def prepared(folder: Path) -> Iterator[Given]:
    """Prepares two wide networks and data for `barrier`, an adapter that never answers for `conform`, and a cluster."""
    (folder / "adapter.py").write_text("import time\n\n\ndef run(case):\n    time.sleep(1e6)\n")
    rng = np.random.default_rng(0)
    for name in "ab":
        np.savez(folder / f"{name}.npz", hidden=rng.standard_normal((3000, 64)), readout=rng.choice([-1.0, 1.0], 3000))
    np.savez(folder / "data.npz", x=rng.standard_normal((3000, 64)), y=rng.choice([-1.0, 1.0], 3000))
    place, dask = folder / "scheduler.json", [sys.executable, "-m", "dask"]
    files = ("--no-dashboard", "--scheduler-file", str(place))
    parts = (["scheduler", "--host", "127.0.0.1", "--port", "0"], ["worker", "--nworkers", "1", "--nthreads", "1"])
    cluster = [
        subprocess.Popen([*dask, *part, *files], cwd=folder, env=_environment(), stderr=DEVNULL) for part in parts
    ]
    try:
        while not place.is_file():
            time.sleep(0.1)
        yield Given(folder, json.loads(place.read_text())["address"])
    finally:
        for process in cluster:
            process.kill()
            process.wait()


def interrupted(name: str, seed: int, given: Given, patience: float = PATIENCE) -> Try:
    """Starts a command, interrupts it at a moment that the seed decides, and waits for its end."""
    rng = random.Random(f"{name} {seed}")
    sent = signal.SIGTERM if rng.random() < 0.25 else signal.SIGINT
    to_group = sent is signal.SIGINT and rng.random() < 0.5  # A terminal signals the whole group.
    early, after = rng.random() < 0.5, rng.random()
    with TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(BUSY_COLLECTOR)
        words = [word.format(folder, given.folder, given.scheduler) for word in COMMANDS[name].split()]
        log = Path(folder, "said")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "experiments", *words],
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
                cwd=ROOT,
                env=_environment(folder),
                start_new_session=True,
                # A shell's background jobs ignore SIGINT, so the default is restored.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        try:
            begun = time.monotonic()
            while process.poll() is None and not _hears(process.pid) and time.monotonic() < begun + patience:
                time.sleep(0.01)
            while not early and process.poll() is None and not log.stat().st_size:
                if time.monotonic() > begun + SILENT:
                    break
                time.sleep(0.05)
            try:
                process.wait(after * (EARLY if early else LATE))
            except subprocess.TimeoutExpired:
                after = time.monotonic() - begun
                (os.killpg if to_group else os.kill)(process.pid, sent)
            over, came = process.returncode is not None, time.monotonic()
            try:
                process.wait(patience)
                ignored = False
            except subprocess.TimeoutExpired:
                ignored = True
            took = time.monotonic() - came
            left = () if ignored else _left(process.pid)
        finally:
            process.kill()
            process.wait()
            for pid, _ in _session(process.pid):
                os.kill(pid, signal.SIGKILL)
        printed = log.read_text(errors="replace")
        return Try(name, sent, to_group, after, over, ignored, process.returncode, took, printed, left)


def _environment(*folders: str) -> Mapping[str, str]:
    path = os.pathsep.join([*folders, str(ROOT)])
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def _hears(pid: int) -> bool:
    """Says whether a process handles both signals; until it does, Python itself is still starting."""
    try:
        caught = Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0]
    except (OSError, IndexError):
        return False
    return all(int(caught, 16) >> (number - 1) & 1 for number in (signal.SIGINT, signal.SIGTERM))


def _left(session: int) -> tuple[str, ...]:
    """Returns the processes of a session that still exist some seconds after its leader has ended."""
    for _ in range(50):
        if not _session(session):
            return ()
        time.sleep(0.2)
    return tuple(what for _, what in _session(session))


def _session(session: int) -> list[tuple[int, str]]:
    processes = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, _, _, its = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(its) == session and state != "Z":
                    processes.append((int(folder.name), (folder / "cmdline").read_text().replace("\0", " ").strip()))
            except OSError:
                continue  # The process has just ended.
    return processes


def table(tries: list[Try]) -> str:
    """Returns the table, with one row for each command."""
    columns = ("ignored", "traceback", "orphans", "wrong status")
    lines = [f"{'command':<22}{'tries':>6}{'over':>6}" + "".join(f"{c:>14}" for c in columns) + f"{'slowest [s]':>13}"]
    for name in dict.fromkeys(attempt.command for attempt in tries):
        own = [attempt for attempt in tries if attempt.command == name]
        wrong = Counter(word for attempt in own for word in attempt.wrong)
        slowest = max((attempt.took for attempt in own if not attempt.over), default=0.0)
        counts = "".join(f"{wrong[c]:>14}" for c in columns)
        lines.append(f"{name:<22}{len(own):>6}{sum(attempt.over for attempt in own):>6}{counts}{slowest:>13.1f}")
    return "\n".join(lines)


def main() -> None:
    """Runs all chosen commands, several at a time; prints the table, and each failure in full."""
    parser = argparse.ArgumentParser()
    parser.add_argument("commands", nargs="*", default=list(COMMANDS))
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="say how each try ended")
    parser.add_argument("--patience", type=float, default=PATIENCE)
    given = parser.parse_args()
    with TemporaryDirectory() as folder, prepared(Path(folder)) as files, ThreadPoolExecutor(given.at_once) as pool:
        jobs = [
            pool.submit(interrupted, name, seed, files, given.patience)
            for name in given.commands
            for seed in range(given.first, given.first + given.tries * TRIES_FACTOR.get(name, 1))
        ]
        tries = []
        for job in jobs:
            one = job.result()
            tries.append(one)
            faults = ", ".join(one.wrong)
            if faults or given.verbose:
                how = f"{one.sent.name}{' to the group' if one.to_group else ''} after {one.after:.2f} s"
                ended = "over" if one.over else faults or "right"
                print(f"--- {one.command}: {how}: {ended}; status {one.status}, took {one.took:.1f} s", flush=True)
                print("\n".join([*one.output.splitlines()[-12:], *one.left]), flush=True)
        print(table(tries))


if __name__ == "__main__":
    main()
