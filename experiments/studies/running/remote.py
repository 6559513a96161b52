"""A Dask worker's part of one cell; a worker must be able to import this module, and nothing else, to begin."""

import json
import os
from threading import Lock

from experiments.studies.running.one_thread import limit_to_one_thread

ONE_AT_A_TIME = Lock()  # a worker may have several threads; ball arithmetic has its precision per process


def measured_there(spec: str, inputs: str) -> bytes | str:
    """The cell of these inputs as the bytes of its file, or the traceback of its failure; the worker stores nothing.

    Raises:
        OtherCode: the worker has another version of the code. ValueError: it has no such study.
    """
    limit_to_one_thread(os.environ)
    from experiments.studies.running.cell import Cell
    from experiments.studies.running.measuring import measured

    with ONE_AT_A_TIME:
        return measured(spec, Cell(**json.loads(inputs)))
