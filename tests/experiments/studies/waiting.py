"""Waiting for the effects of another process."""

import time


def until(seen, looks=15_000):
    """Look until `seen()` is true; fail if it never becomes true. Looks are counted, since a clock may jump."""
    for _ in range(looks):
        if seen():
            return
        time.sleep(0.02)
    raise AssertionError(f"not seen in {looks} looks")
