"""Tests of interrupts: until code has caught it, an interrupt is raised again wherever raising is allowed.

A program that does not call `install` sees no difference.
"""

import gc
import importlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ntkfl import interruption
from ntkfl.interruption import KNOCK, Interruption

ROOT = Path(__file__).parents[2]
OURS = signal.SIGUSR1  # This signal replaces the signal of Ctrl-C, which pytest handles.


@pytest.fixture
def handlers():
    """Restores the signal handlers after the test."""
    signals = (OURS, KNOCK, *interruption.SIGNALS)
    before = {signum: signal.getsignal(signum) for signum in signals}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.fixture
def installed(handlers, monkeypatch):
    monkeypatch.setattr(interruption, "_installed", Interruption())
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    own = Interruption(OURS)
    interruption.install(own)
    return own


def come():
    signal.raise_signal(OURS)


def test_it_is_raised_where_python_is(installed):
    with pytest.raises(KeyboardInterrupt), interruption.released():
        come()
    assert installed.came is OURS and interruption.status() == 128 + OURS


def test_it_waits_until_it_is_let_through(installed):
    come()
    interruption.check()
    with pytest.raises(KeyboardInterrupt), interruption.released():
        pytest.fail("what has waited is raised at once")
    interruption.taken()
    reached = []
    with interruption.released(), pytest.raises(KeyboardInterrupt), interruption.held():
        come()
        reached.append("the end of the block")
    assert reached


def test_one_that_the_garbage_collector_has_lost_is_raised_by_the_next_look(installed, capfd):
    def callback(phase, info):
        if not seen:
            seen.append(phase)
            come()

    seen: list[str] = []
    with interruption.released():
        gc.callbacks.append(callback)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(callback)
        assert seen and installed.lost
        with pytest.raises(KeyboardInterrupt):
            interruption.check()
    assert capfd.readouterr().err == ""


def test_one_that_was_caught_is_raised_again_unless_it_was_taken(installed):
    with interruption.released():
        with pytest.raises(KeyboardInterrupt):
            come()
        with pytest.raises(KeyboardInterrupt):
            interruption.check()
        interruption.taken()
        interruption.check()
        assert not interruption.pending()


def test_it_is_not_raised_twice_while_results_are_saved(installed):
    saved = []
    with interruption.released(), pytest.raises(KeyboardInterrupt) as raised:
        try:
            come()
        finally:
            interruption.check()
            saved.append(True)
    assert saved and raised.value.__context__ is None


def test_an_error_that_it_became_does_not_hide_it(installed):
    with interruption.released():
        try:
            try:
                come()
            except KeyboardInterrupt as error:
                raise ImportError("of C code") from error
        except ImportError:
            # `check` raises nothing here, because the interrupt still exists as the cause of the ImportError.
            interruption.check()
        with pytest.raises(KeyboardInterrupt):
            interruption.check()


def test_nothing_is_raised_within_an_import(installed, tmp_path, monkeypatch):
    text = "import signal\nsignal.raise_signal(signal.SIGUSR1)\nwhole = True\n"
    (tmp_path / "imported_while_interrupted.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with interruption.released():
        module = importlib.import_module("imported_while_interrupted")
        assert module.whole
        with pytest.raises(KeyboardInterrupt):
            interruption.check()


def test_other_threads_are_left_in_peace(installed):
    with pytest.raises(KeyboardInterrupt), interruption.released():
        installed.arrived(OURS)
        thread = threading.Thread(target=interruption.check)
        thread.start()
        thread.join()
        interruption.check()


def test_instead_of_raising_it_something_may_be_done(installed):
    done = []
    with interruption.instead(lambda: done.append("stop")):
        come()
        interruption.check()
        assert done == ["stop"]
    with interruption.released():
        interruption.check()
        with pytest.raises(KeyboardInterrupt):
            come()


def test_where_it_is_not_installed_nothing_changes(handlers, monkeypatch):
    monkeypatch.setattr(interruption, "_installed", Interruption())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    done = []
    with interruption.held(), interruption.released():
        interruption.check()
        interruption.taken()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        interruption.check()
    with interruption.instead(lambda: done.append("stop")):
        signal.raise_signal(signal.SIGINT)
    assert done == ["stop"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert interruption.status() == 130 and not interruption.pending()


def test_a_job_in_the_background_stays_deaf(handlers):
    signal.signal(OURS, signal.SIG_IGN)
    Interruption(OURS).listen()
    assert signal.getsignal(OURS) is signal.SIG_IGN


BEGIN = """
import gc, signal, sys, time
sys.path.insert(0, "ntkfl")
import interruption
interruption.install()
"""


def started(program):
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + program],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.mark.parametrize("sent", interruption.SIGNALS)
def test_a_lost_one_comes_again_where_no_loop_looks(sent):
    program = """
try:
    with interruption.released():
        try:
            print("ready", flush=True)
            while True: pass
        except KeyboardInterrupt:
            print("lost", flush=True)
        while True: pass
except KeyboardInterrupt:
    interruption.taken()
    print("came again", flush=True)
sys.exit(interruption.status())
"""
    with started(program) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(sent)
        out, err = process.communicate()
    assert (out, process.returncode) == ("lost\ncame again\n", 128 + sent) and "Traceback" not in err


def test_a_second_one_ends_at_once():
    program = """
try:
    with interruption.released():
        print("ready", flush=True)
        while True: pass
except KeyboardInterrupt:
    interruption.taken()
    print("saving", flush=True)
    while True: pass
"""
    with started(program) as process:
        assert process.stdout.readline() == "ready\n"
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                pass
        out, err = process.communicate()
    assert out == "saving\n" and process.returncode == 130
    assert err.splitlines()[-1] == "ended at once, by a second signal"


def test_a_process_ends_with_who_has_started_it():
    reading, writing = os.pipe()
    program = f"interruption.end_with({reading})\nprint('ready', flush=True)\nwhile True: time.sleep(1)"
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + program], cwd=ROOT, text=True, stdout=subprocess.PIPE, pass_fds=[reading]
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        os.close(reading)
        os.close(writing)
        assert process.wait() == 0
