"""Waiting for the effects of another process."""

import time


def until(seen, looks=15_000):
    """Look until `seen()` is true, at most a number of times, since a clock may jump; then an assertion fails."""
    for _ in range(looks):
        if seen():
            return
        time.sleep(0.02)
    raise AssertionError(f"not seen in {looks} looks")
