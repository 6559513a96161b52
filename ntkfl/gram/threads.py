"""How many threads share a large computation."""

from __future__ import annotations

from threadpoolctl import threadpool_info


def worker_threads() -> int:
    """As many as BLAS has: whoever limits that (OMP_NUM_THREADS, `threadpool_limits`) limits all."""
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
