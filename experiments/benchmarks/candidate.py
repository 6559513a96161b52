"""A process that repeats one candidate's work on request, and reports the time of each repetition.

A workload is a computation that is measured. A candidate is one way to do it, such as our code or another package's.

`python -m experiments.benchmarks.candidate WORKLOAD CANDIDATE SIZES` prepares the work, does it once, and prints a
report of the times together with numbers of the result. Then it does the work again for every line of its standard
input, and prints a report each time. A report is JSON and has the seconds on the clock, the seconds on the processor,
and the largest memory so far.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.benchmarks.workload import Timed
from ntkfl import interruption

KEPT = 64  # number of entries of a result that are compared; they are evenly spaced


def main(workload: str, candidate: str, sizes: str) -> None:
    """Do the work once, then once more for every line of the input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to stderr
    interruption.end_with(sys.stdin.fileno())
    from experiments.benchmarks.workloads import catalogue

    chosen = next(c for c in catalogue()[workload].candidates if c.name == candidate)
    call = chosen.build(json.loads(sizes))
    result, *first = timed(call)
    print(json.dumps({"numbers": compared(result), **_times(*first)}), file=answers, flush=True)
    del result
    for _ in sys.stdin:
        _, *again = timed(call)
        print(json.dumps(_times(*again)), file=answers, flush=True)


def compared(result: Any) -> list[float]:
    """The numbers of a result that are compared with those of other candidates."""
    numbers = np.asarray(result, float).ravel()
    return numbers[np.linspace(0, len(numbers) - 1, min(KEPT, len(numbers))).astype(int)].tolist()


def _times(clock: float, processor: float) -> dict[str, float]:
    return {"clock": clock, "processor": processor, "memory": _memory()}


def timed(call: Callable[..., Any], *arguments: Any) -> Timed:
    """Do the work once and return the result with its seconds.

    If the result is a `Timed`, it holds the seconds itself.
    """
    clock, processor = time.perf_counter(), time.process_time()
    returned = call(*arguments)
    if isinstance(returned, Timed):
        return returned
    return Timed(returned, time.perf_counter() - clock, time.process_time() - processor)


def _memory() -> int:
    """The largest resident memory so far, in bytes, of this process or of any child process that has ended."""
    largest = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return largest * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main(*sys.argv[1:])
