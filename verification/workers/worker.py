"""A process that checks the units that it is given, one by one, and reports its progress; see `verification.processes`.

Each message is one JSON list: ["ready"], ["case", family], ["warning", whether it is about steps, text, file, line], or
["verdicts", [...]].
"""

import json
import signal
import warnings
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from bounds import Form, Options, get
from bounds.listing import restore
from ntkfl import interruption
from ntkfl.exact_dynamics import UnstableSteps
from ntkfl.extensions import from_source
from ntkfl.interruption import Interruption
from verification.engine import verify_all
from verification.verdict import Verdict

# This signal takes the place of a terminal's Ctrl-C. SIGINT is sent to all processes at once, and workers ignore it.
STOP = signal.SIGUSR1


class Interrupts(Interruption):
    """The effect of the signal STOP.

    A STOP ends the cases. Once the cases are counted, a second STOP ends what follows them, such as confirmations. No
    STOP interrupts a message.
    """

    def __init__(self) -> None:
        super().__init__(STOP)
        self.seen = 0
        self.counted = False

    def arrived(self, number: signal.Signals) -> None:
        """Handle a STOP.

        The first STOP has an effect only until all cases are counted; each further STOP always has an effect.
        """
        self.seen += 1
        if self.seen > 1 or not self.counted:
            super().arrived(number)


def serve(
    connection: Connection,
    options: Options,
    forms: Sequence[Form] | None,
    files: Sequence[tuple[str, bytes]] = (),
) -> None:
    """Check the statements of the lists of ids that the connection hands out.

    The process returns from this function when an empty list is handed out or the connection is closed. `files` has the
    names and contents of the user's files, whose statements may be among the ids.
    """
    for name, source in files:
        restore(from_source(name, source))
    interrupts = Interrupts()
    interruption.install(interrupts)
    interruption.end_with(connection.fileno())

    warned: deque[tuple[bool, str, str, int]] = deque()  # warnings of any thread, which are sent by this thread alone

    def say(*message: Any) -> None:
        while warned:
            connection.send_bytes(json.dumps(["warning", *warned.popleft()]).encode())
        connection.send_bytes(json.dumps(message).encode())

    def progress(family: str, done: int, total: int) -> None:
        with interruption.held():
            interrupts.counted = done == total
            say("case", family)

    def warn(message: Warning | str, category: type, filename: str, lineno: int, *_: Any) -> None:
        warned.append((issubclass(category, UnstableSteps), str(message), filename, lineno))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = warn  # type: ignore[assignment]
        try:
            say("ready")
            while unit := json.loads(connection.recv_bytes()):
                verdicts = _checked(unit, options, forms, progress, interrupts)
                interrupts.counted = False  # a STOP that arrives with the next unit is meant for that unit
                say("verdicts", [verdict.to_json() for verdict in verdicts])
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return  # the process that hands out the units is gone


def _checked(unit, options, forms, progress, interrupts: Interrupts) -> list[Verdict]:
    interrupts.counted = False
    try:
        with interruption.released():
            return verify_all([get(name) for name in unit], options, forms, progress, threads=0)
    except KeyboardInterrupt:
        interruption.taken()
        return []
