"""Imported by the process that workers are forked from, see `verification.processes`: their code and the catalogue.

And what would take each of them seconds: JAX, the library that the digits are in, and the passes of the simulators,
which are compiled without starting a thread that a fork would lose. That takes seconds here too, and who has started
this process may be killed meanwhile.
"""

import os
import signal

parent = os.getppid()


def _end_if_alone(*_: object) -> None:
    if os.getppid() != parent:
        os._exit(0)


signal.signal(signal.SIGALRM, _end_if_alone)
signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)

import jax  # noqa: E402, F401
import sklearn.datasets  # noqa: E402, F401

import verification.workers.worker  # noqa: E402, F401
from bounds.listing import catalogue  # noqa: E402
from ntkfl.algorithm1 import client_passes, compiled_neurons  # noqa: E402

catalogue()
compiled_neurons.passes()
client_passes.passes("float64")
signal.setitimer(signal.ITIMER_REAL, 0)
signal.signal(signal.SIGALRM, signal.SIG_DFL)
