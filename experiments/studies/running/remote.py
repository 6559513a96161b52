"""A Dask worker's part of a cell; a worker needs only this module to begin."""

import json
import os
from threading import Lock

from experiments.studies.running.one_thread import limit_to_one_thread

ONE_AT_A_TIME = Lock()  # a worker may have several threads, and ball arithmetic has one precision for a process


def measured_there(spec: str, inputs: str) -> bytes | str:
    """The cell of these inputs as the bytes of its file, or the traceback of its failure; the worker stores nothing.

    Raises:
        OtherCode: the worker has another version of the code. ValueError: it has no such study.
    """
    limit_to_one_thread(os.environ)
    from experiments.studies.running.cell_store import Cell
    from experiments.studies.running.measuring import measured

    with ONE_AT_A_TIME:
        return measured(spec, Cell(**json.loads(inputs)))
