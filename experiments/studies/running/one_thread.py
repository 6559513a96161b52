"""Limit a process to one thread.

Then several processes do not compete for the cores, and the last bits of a cell's numbers do not depend on the number
of cores.
"""

from collections.abc import MutableMapping

# the last two are for XLA
COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC", "PJRT_NPROC")
XLA_FLAG = "--xla_cpu_multi_thread_eigen=false"


def limit_to_one_thread(environment: MutableMapping[str, str]) -> None:
    """Set the variables that numpy, scipy, torch and jax read when they are first imported or used.

    A later call has no effect.
    """
    environment.update(dict.fromkeys(COUNTS, "1"))
    flags = environment.get("XLA_FLAGS", "").split()
    environment["XLA_FLAGS"] = " ".join([*flags, *({XLA_FLAG} - set(flags))])
