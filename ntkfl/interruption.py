"""SIGINT and SIGTERM become a KeyboardInterrupt that is raised again until a program has caught it.

Python raises a KeyboardInterrupt once, wherever the program is. In a callback of C code, such as JAX's callback in the
garbage collector, the exception is printed and lost. In an import of native code the exception aborts the process.
After `install` the signal is remembered. Nothing is raised during an import. A lost exception is raised again by a
thread that looks ten times a second, and by the next `check` of a loop. A program that does not call `install`, such as
a notebook, sees no difference.

Only the standard library is imported here, because the signals are handled before the command line is imported.
"""

import atexit
import os
import select
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
KNOCK = signal.SIGURG  # a signal that wakes the main thread; a process without a handler ignores it
SECONDS_BETWEEN_KNOCKS = 0.1
# Two signals within this many seconds are one interrupt, since `timeout` and some shells send two signals.
SECONDS_OF_ONE = 0.5
SECONDS_UNSAID = 1.0  # a program that has not stopped after this many seconds says that it is stopping
IMPORT = "<frozen importlib._bootstrap>"


class Interrupted(KeyboardInterrupt):
    """An interrupt; code that catches it and then goes on must call `taken`."""


class Interruption:
    """The signals that came, and the state of the exception that they raised.

    The exception is lost if it was freed before `taken` was called. `came` is the first signal. `held` says whether
    interrupts must wait; at first they wait until a block is `released`.
    """

    def __init__(self, *signals: signal.Signals) -> None:
        self.signals = signals
        self.came: signal.Signals | None = None
        self.held = True
        self.instead: Callable[[], None] | None = None
        self.pending = False
        self.announced = False  # whether the program has printed that it is stopping
        self._raised: Callable[[], Interrupted | None] = lambda: None

    def listen(self) -> None:
        """Handle the signals from here on, except those that the process ignores, as a background job does."""
        self.signals = tuple(number for number in self.signals if signal.getsignal(number) is not signal.SIG_IGN)
        for number in (*self.signals, KNOCK):
            signal.signal(number, self._handle)

    def arrived(self, number: signal.Signals) -> None:
        """Note that a signal came, which is to be delivered."""
        self.came = self.came or number
        self.pending = True

    def deliver(self) -> None:
        """Raise the interrupt that has come, unless its exception is already raised or must wait.

        Raises:
            Interrupted: there was an interrupt.
        """
        if not self.lost or self.held:
            return
        if self.instead is not None:
            self.pending = False
            return self.instead()
        raised = Interrupted()
        self._raised = weakref.ref(raised)
        try:
            raise raised
        finally:
            del raised  # otherwise the traceback keeps the exception alive, and the exception never counts as lost

    @property
    def lost(self) -> bool:
        """Whether an interrupt's exception no longer exists although nobody caught it."""
        return self.pending and self._raised() is None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number in self.signals:
            self.arrived(signal.Signals(number))
        if not _importing(frame):
            self.deliver()


_installed = Interruption()  # no signals until `install` is called


def install(own: Interruption | None = None) -> None:
    """Handle SIGINT and SIGTERM from here on; a second signal ends the process at once.

    Only the main thread may call this function. An interrupt is raised only within a block that is `released`, since
    before and after a command there is nothing to stop. If `own` is given, it handles the signals that it was made for,
    and no thread is started.
    """
    global _installed
    _installed = own or Interruption(*SIGNALS)
    _installed.listen()
    print_unraisable = sys.unraisablehook

    def unraisable(lost: Any) -> None:  # an Interrupted is raised again, so that it need not be printed
        if not isinstance(lost.exc_value, Interrupted):
            print_unraisable(lost)

    sys.unraisablehook = unraisable
    if own is None:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=_listen, args=(_installed, reading), daemon=True).start()
        for number in _installed.signals:  # at the very end of the program, a signal must not change its exit status
            atexit.register(signal.signal, number, signal.SIG_IGN)


def check() -> None:
    """Raise the interrupt that has come and was lost; loops call this function.

    In other threads than the main thread it does nothing.

    Raises:
        Interrupted: there was an interrupt.
    """
    if _installed.lost and threading.current_thread() is threading.main_thread():
        _installed.deliver()


def first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest integer at which a condition holds, by bisection.

    The condition must fail at `low`, and hold from the returned integer up to `high`.
    """
    while high - low > 1:
        check()
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def pending() -> bool:
    """Whether an interrupt has come that nobody has caught so far."""
    return _installed.pending


def taken() -> None:
    """Note that the program has caught a KeyboardInterrupt, so that it is not raised again."""
    _installed.pending = False


@contextmanager
def held() -> Iterator[None]:
    """A block in which an interrupt waits; it is raised at the end of the block."""
    with _holding(True):
        yield
    check()


@contextmanager
def released() -> Iterator[None]:
    """A block in which interrupts are raised, even inside `held`; a waiting interrupt is raised at once."""
    with _holding(False):
        check()
        yield


@contextmanager
def _holding(held: bool) -> Iterator[None]:
    own = _installed
    before, own.held = own.held, held
    try:
        yield
    finally:
        own.held = before


@contextmanager
def instead(act: Callable[[], None]) -> Iterator[None]:
    """A block in which an interrupt calls `act` and raises nothing, even before `install`."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        yield
    elif _installed.signals:
        earlier, _installed.instead = _installed.instead, act
        try:
            with released():
                yield
        finally:
            _installed.instead = earlier
    elif before is signal.SIG_IGN:
        yield  # a job in the background is not interrupted
    else:
        signal.signal(signal.SIGINT, lambda *_: act())
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


@contextmanager
def blocked() -> Iterator[None]:
    """A block in which SIGINT and SIGTERM wait; processes that are started in it never receive them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with(other_end: int) -> None:
    """End this process when the other end of this pipe or socket is closed, since then nobody receives its results.

    If this process leads a group of processes, the group ends with it.
    """

    def watch() -> None:
        hung_up = select.poll()
        hung_up.register(other_end, 0)
        hung_up.poll()
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def ending() -> None:
    """Suppress the message that the program is stopping.

    The function is called when the program has said why the program ends.
    """
    _installed.announced = True
    taken()


def status() -> int:
    """The exit status of an interrupted program: 143 if SIGTERM interrupted it, otherwise 130."""
    return 128 + (_installed.came or signal.SIGINT)


def name() -> str:
    """The name of the signal, for a message."""
    return "Ctrl-C" if status() == 128 + signal.SIGINT else "SIGTERM"


def _importing(frame: FrameType | None) -> bool:
    """Whether this frame is within an import."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORT:
            return True
        frame = frame.f_back
    return False


def _listen(heard: Interruption, pipe: int) -> None:
    """The work of the listening thread.

    The thread hears signals even while the main thread runs C code, and raises lost interrupts again.
    """
    main, first = threading.main_thread().ident, 0.0
    assert main is not None
    while True:
        if select.select([pipe], [], [], SECONDS_BETWEEN_KNOCKS if first else None)[0]:
            (number,) = os.read(pipe, 1)
            if number in heard.signals:
                if first and time.monotonic() > first + SECONDS_OF_ONE:
                    _say("ended at once, by a second signal")
                    os._exit(128 + number)
                first = first or time.monotonic()
            continue
        if heard.lost and not heard.held:
            signal.pthread_kill(main, KNOCK)
        if not heard.announced and time.monotonic() > first + SECONDS_UNSAID:
            heard.announced = True
            _say("stopping; Ctrl-C again ends at once, and keeps nothing more")


def _say(text: str) -> None:
    with suppress(OSError):  # an error means that the error stream is closed
        os.write(2, f"{text}\n".encode())
