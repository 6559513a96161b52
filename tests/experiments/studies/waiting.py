"""Waiting for the effects of another process."""

import time


def until(seen, looks=15_000):
    """Calls `seen` again and again until it returns true, and fails if it never does.

    The limit is a number of calls and not a time, since a clock may jump.
    """
    for _ in range(looks):
        if seen():
            return
        time.sleep(0.02)
    raise AssertionError(f"not seen in {looks} looks")
