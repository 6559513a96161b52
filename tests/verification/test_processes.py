"""Tests of several processes: together they give the verdicts of one process.

If a process dies, no verdict of the other processes is lost. An interrupt reports what all processes have counted. Runs
that overflow leave their statement unresolved, and the other statements are checked.
"""

import multiprocessing
import os
import signal
import subprocess
import sys

import pytest

from bounds import Form, Options, Outcome, catalogue, get
from ntkfl import interruption
from verification import processes
from verification.engine import verify_all
from verification.processes import verify_in_processes
from verification.workers.units import Unit, kept_apart, next_for, units
from verification.workers.worker import STOP, Interrupts

CHEAP = [get(f"fl-ntk/{name}") for name in ("A.1", "A.2", "X.7")] + [get("fedgucci/F4"), get("averaging/I7")]
FEW = Options(trials=20)


def plain(verdicts):
    return [verdict.to_json() for verdict in verdicts]


def test_units_share_no_case_and_leave_out_no_statement():
    statements, options = list(catalogue().values()), Options()
    parts = units(statements, options)
    assert sorted(name for unit in parts for name in unit.statements) == sorted(catalogue())
    draws = [
        {draw for name in unit.statements for form in get(name).forms for draw in get(name).families_of(form, options)}
        for unit in parts
    ]
    assert sum(map(len, draws)) == len(set().union(*draws))
    assert [unit.cases for unit in parts] == [sum(draw.trials for draw in families) for families in draws]
    assert [unit.seconds for unit in parts] == sorted((unit.seconds for unit in parts), reverse=True)
    together = next(unit for unit in parts if "fl-ntk/B.10" in unit.statements)
    assert "fl-ntk/B.7" in together.statements  # Statements B.7 and B.10 share the cases of aligned points.
    (alone,) = units([get("fl-ntk/A.2")], options, [Form.STATED])
    assert (alone.statements, alone.cases) == (("fl-ntk/A.2",), 200)


def test_a_statement_whose_families_cannot_be_made_is_a_unit_without_cases():
    def fails(options):
        raise ValueError("no such data")

    statement = get("fl-ntk/A.2")
    broken = type(statement)(**{**vars(statement), "families": fails})
    (unit,) = units([broken], Options())
    assert (unit.statements, unit.cases) == (("fl-ntk/A.2",), 0)


@pytest.mark.slow
def test_several_processes_find_what_one_finds_in_the_same_order():
    seen = []
    verdicts = verify_in_processes(CHEAP, FEW, progress=lambda *step: seen.append(step), processes=2)
    assert plain(verdicts) == plain(verify_all(CHEAP, FEW))
    assert [done for _, done, _ in seen] == list(range(1, len(seen) + 1)) and seen[-1][1] == seen[-1][2]
    assert not multiprocessing.active_children()


def test_a_process_that_is_killed_takes_no_other_verdict_with_it(monkeypatch):
    counted, busy, take = [], [], processes._Worker.take

    def taking(worker, unit):
        busy.append(worker.process.pid)
        take(worker, unit)

    def kill_one(family, done, total):
        if not counted:
            # The other process may still be starting, and then has no statement whose verdict could be lost.
            os.kill(busy[0], signal.SIGKILL)
        counted.append((done, total))

    monkeypatch.setattr(processes._Worker, "take", taking)
    verdicts = verify_in_processes(CHEAP, FEW, progress=kill_one, processes=2)
    lost = [verdict for verdict in verdicts if verdict.error]
    assert 1 <= len({verdict.id for verdict in lost}) < len(CHEAP)
    for verdict in lost:
        assert verdict.error == "failed with ProcessEnded: the process that checked it was ended by signal 9"
        assert (verdict.outcome, verdict.as_recorded) == (Outcome.UNRESOLVED, False)
    kept = [statement for statement in CHEAP if statement.id not in {verdict.id for verdict in lost}]
    assert plain(verdict for verdict in verdicts if not verdict.error) == plain(verify_all(kept, FEW))
    assert counted[-1][0] == counted[-1][1]  # The cases of the lost process count as done.


@pytest.mark.slow
def test_an_interruption_reports_what_all_processes_counted():
    # A shell starts background jobs with SIGINT ignored, so the handler is set.
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.getsignal(signal.SIGINT)
    total = 0

    def interrupt(family, done, of):
        nonlocal total
        total = of
        if done == 30:
            signal.raise_signal(signal.SIGINT)

    many = Options(trials=4000)
    verdicts = verify_in_processes(CHEAP[:2], many, progress=interrupt, processes=2)
    assert 1 <= len(verdicts) <= 4 and total == 8000
    for verdict in verdicts:
        assert str(verdict.notes[0]).startswith("interrupted: the cases of ")
        assert 0 < verdict.trials < 4000
    assert signal.getsignal(signal.SIGINT) is before
    assert not multiprocessing.active_children()
    signal.signal(signal.SIGINT, ours)


def test_runs_that_overflow_leave_their_statement_unresolved_and_the_others_go_on():
    wild = Options(trials=5, width=64, rounds=50, eta_local=1e30)
    with pytest.warns(UserWarning, match="eta_local = 1e\\+30"):
        verdicts = verify_in_processes([get("fl-ntk/Eq1"), get("fl-ntk/A.2")], wild, processes=2)
    runs, matrices = verdicts[0], verdicts[-1]
    assert (runs.outcome, runs.trials, runs.error) == (Outcome.UNRESOLVED, 10, None) and runs.nothing_tested
    assert len(runs.counts.not_computed) == 10 and all("overflowed" in why for why in runs.counts.not_computed.values())
    assert matrices.id == "fl-ntk/A.2" and matrices.trials and not matrices.counts.not_computed


def test_short_work_is_done_in_this_process(monkeypatch):
    monkeypatch.delattr(processes, "_Pool")
    verdicts = verify_in_processes(CHEAP[:2], FEW)
    assert plain(verdicts) == plain(verify_all(CHEAP[:2], FEW))


def test_the_number_of_processes_is_checked():
    with pytest.raises(ValueError, match="processes is 0; it must be a positive integer"):
        verify_in_processes(CHEAP, FEW, processes=0)


def test_a_stop_lets_a_message_end_and_the_first_stop_lets_cases_be_settled(monkeypatch):
    monkeypatch.setattr(interruption, "_installed", interruption.Interruption())
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = {signum: signal.getsignal(signum) for signum in (STOP, interruption.KNOCK)}

    def installed():
        interrupts = Interrupts()
        interruption.install(interrupts)
        return interrupts

    try:
        installed()
        signal.raise_signal(STOP)
        with pytest.raises(KeyboardInterrupt), interruption.released():
            pytest.fail("it has waited")
        installed()
        with interruption.released(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(STOP)
        interrupts = installed()
        with interruption.released():
            interrupts.counted = True
            signal.raise_signal(STOP)  # All cases are counted, and only verdicts remain to be made.
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(STOP)
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def unit(name, seconds, *loads):
    return Unit((name,), 1, seconds, frozenset(loads))


WORK = [unit("a", 9, "torch"), unit("b", 8, "passes"), unit("c", 7, "passes"), unit("d", 6), unit("e", 5, "torch")]


def order_of(work, workers):
    """Returns the units of work that each worker gets.

    Each unit takes its given number of seconds, and a free worker asks for the next unit.
    """
    waiting, loaded = list(work), [frozenset()] * workers
    free, handed = [0.0] * workers, [[] for _ in range(workers)]
    while waiting:
        own = min(range(workers), key=free.__getitem__)
        elsewhere = frozenset().union(*(loaded[other] for other in range(workers) if other != own))
        given = waiting.pop(next_for(loaded[own], elsewhere, waiting))
        free[own] += given.seconds
        loaded[own] |= given.loads
        handed[own] += given.statements
    return handed


def test_one_worker_loads_a_slow_library_if_its_statements_are_no_more_than_a_workers_share():
    assert order_of(kept_apart(WORK, 2), 2) == [["a", "d", "e"], ["b", "c"]]
    assert order_of(kept_apart(WORK, 1), 1) == [["a", "d", "e", "b", "c"]]
    # A worker's share is 8.75 s. The statements that need a library take 14 s for "torch" and 15 s for "passes", so no
    # worker can take all statements of a library.
    four = kept_apart(WORK, 4)
    assert not any(part.loads for part in four)
    assert order_of(four, 4) == [["a"], ["b"], ["c"], ["d", "e"]]


@pytest.mark.slow
def test_what_is_preloaded_can_be_forked():
    """What is preloaded can be forked.

    A fork keeps only one of its parent's threads, but XLA and BLAS need theirs, so they must not have been started.
    """
    program = (
        "import verification.workers.preloaded, os\n"
        "from ntkfl import initialisation\n"
        "assert initialisation._normal.cache_info().currsize == 0\n"
        "print(len(os.listdir('/proc/self/task')) if os.path.isdir('/proc/self/task') else 1)"
    )
    given = os.environ | processes.ONE_THREAD
    done = subprocess.run([sys.executable, "-c", program], env=given, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]
