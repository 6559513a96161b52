"""A script that trains in processes that end or wait in the middle of training.

The script starts one process for each line of stdin. A line names a function of this file and the folder of the run.
Each process is forked from the script's own process, so that torch is imported once. stdout gets the output of each
process and, after its end, its exit status, which is negative if the process was killed.
"""

import os
import signal
import sys
from dataclasses import replace
from types import SimpleNamespace

from toy_runs import KEYS, objects, run, toy_run

from ntkfl.training import checkpoint


def killed_in_a_round(folder):
    """Trains until the process kills itself in round 2, after the clients' steps and before the server's step."""
    given = objects("feddyn")
    server = given["method"].server

    class Killer(type(server)):
        def step(self, state, means, now):
            if now.number == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().step(state, means, now)

    given["method"] = replace(given["method"], server=Killer(server.alpha))
    run(**given, **KEYS, rounds=4, out=folder)


def killed_in_a_checkpoint(folder):
    """Trains until the process kills itself when some files of a checkpoint are in place."""
    original, count = os.replace, []

    def replacing(*arguments):
        count.append(arguments)
        if len(count) == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        original(*arguments)

    checkpoint.os = SimpleNamespace(**vars(os) | {"replace": replacing})
    run(**objects("feddyn"), **KEYS, rounds=4, out=folder)


def waiting(folder):
    """Prints the number of the process in round 2 and waits until the process is killed."""

    def wait(row, rounds):
        if row.round == 2:
            print(os.getpid(), flush=True)
            signal.pause()

    toy_run(out=folder, progress=wait)


if __name__ == "__main__":
    for line in sys.stdin:
        name, folder = line.rstrip("\n").split(" ", 1)
        if not os.fork():
            globals()[name](folder)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
