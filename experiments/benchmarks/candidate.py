"""A process that does one candidate's work as often as it is told, and says what each time took.

`python -m experiments.benchmarks.candidate WORKLOAD CANDIDATE SIZES`: it builds, does the work once unmeasured, says
"ready" with the result's numbers, and then answers every line with seconds on the clock, on the processor and its
largest memory so far, as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time

import numpy as np

KEPT = 64  # numbers of a result that are compared, spread evenly


def main(workload: str, candidate: str, sizes: str) -> None:
    """Serve until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    from experiments.benchmarks.workloads import catalogue

    found = next(c for c in catalogue()[workload].candidates if c.name == candidate)
    call = found.build(json.loads(sizes))
    result = np.asarray(call(), float).ravel()
    start = _memory()
    numbers = result[np.linspace(0, len(result) - 1, min(KEPT, len(result))).astype(int)]
    print(json.dumps({"numbers": numbers.tolist(), "memory": start}), file=answers, flush=True)
    del result
    for _ in sys.stdin:
        clock, processor = time.perf_counter(), time.process_time()
        call()
        took = {"clock": time.perf_counter() - clock, "processor": time.process_time() - processor}
        print(json.dumps(took | {"memory": _memory()}), file=answers, flush=True)


def _memory() -> int:
    """The largest resident memory so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main(*sys.argv[1:])
