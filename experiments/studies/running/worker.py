"""A worker process, which measures and stores cells until its input ends.

Each line of the input is a cell as JSON.
"""

import json
import os
import sys
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

READY = "ready"


def main(folder: str, spec: str) -> None:
    """Answer every line of the input with a line of JSON.

    The answer has the status of the cell. If this process must stop, the answer has the reason instead.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a study prints must not be taken for an answer
    lines: SimpleQueue[str] = SimpleQueue()
    Thread(target=_read, args=(lines,), daemon=True).start()

    from experiments.studies.running.cell_store import Cell, CellStore
    from experiments.studies.running.code_version import OtherCode
    from experiments.studies.running.measuring import settle

    store, answer = CellStore(Path(folder)), {"status": READY}
    while "stop" not in answer:
        print(json.dumps(answer), file=answers, flush=True)
        cell = Cell(**json.loads(lines.get()))
        try:
            answer = {"status": settle(store, spec, cell)}
        except (OSError, OtherCode, ValueError) as error:
            answer = {"stop": str(error)}
        sys.stdout.flush()
    print(json.dumps(answer), file=answers, flush=True)


def _read(lines: SimpleQueue[str]) -> None:
    """Read the input into a queue.

    The end of the input means that the run is over or was killed, and that this process must end too.
    """
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
