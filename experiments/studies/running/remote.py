"""What a Dask worker does for a cell.

A worker first imports only this module.
"""

import json
import os
from threading import Lock

from experiments.studies.running.one_thread import limit_to_one_thread

# A worker may have several threads. They measure one cell at a time, since the precision of ball arithmetic (arithmetic
# with error bounds) is the same for the whole process.
ONE_AT_A_TIME = Lock()


def measured_there(spec: str, inputs: str) -> bytes | str:
    """Measure the cell of these inputs, and return the bytes of its file, or the traceback if measuring failed.

    The worker stores nothing.

    Raises:
        OtherCode: the worker has another version of the code. ValueError: the worker has no such study.
    """
    limit_to_one_thread(os.environ)
    from experiments.studies.running.cell_store import Cell
    from experiments.studies.running.measuring import measured

    with ONE_AT_A_TIME:
        return measured(spec, Cell(**json.loads(inputs)))
