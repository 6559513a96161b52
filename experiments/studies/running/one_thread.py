"""One thread for each process: cores are not oversubscribed, and a cell's bits do not depend on the number of cores."""

from collections.abc import MutableMapping

COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC", "PJRT_NPROC")  # the last two: XLA's
XLA_FLAG = "--xla_cpu_multi_thread_eigen=false"


def limit_to_one_thread(environment: MutableMapping[str, str]) -> None:
    """Set the variables that numpy, scipy, torch and jax read on first import or use; later it has no effect."""
    environment.update(dict.fromkeys(COUNTS, "1"))
    flags = environment.get("XLA_FLAGS", "").split()
    environment["XLA_FLAGS"] = " ".join([*flags, *({XLA_FLAG} - set(flags))])
