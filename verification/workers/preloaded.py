"""The module that is imported by the process from which `verification.processes` forks workers.

It loads the code of the workers, the catalogue of statements, and JAX. Some statements also need torch and the compiled
passes of the simulators. Torch and these passes are loaded by the workers that check such statements, while other
workers work. Loading takes seconds, and the parent process may be killed in that time; if so, `_end_if_alone` ends this
process.
"""

import gc
import os
import signal

parent = os.getppid()


def _end_if_alone(*_: object) -> None:
    if os.getppid() != parent:
        os._exit(0)


signal.signal(signal.SIGALRM, _end_if_alone)
signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)

import jax  # noqa: E402, F401

import verification.workers.worker  # noqa: E402, F401
from bounds import catalogue  # noqa: E402
from ntkfl.__main__ import COLLECTIONS  # noqa: E402

catalogue()
gc.set_threshold(*COLLECTIONS)
# what is loaded stays to the end, so it is frozen; otherwise each garbage collection in a worker would look through it
gc.freeze()
signal.setitimer(signal.ITIMER_REAL, 0)
signal.signal(signal.SIGALRM, signal.SIG_DFL)
