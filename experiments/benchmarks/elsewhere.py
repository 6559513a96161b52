"""Other packages ("peers") that run in environments of their own.

The interpreter of such an environment runs one of the scripts beside this file. Input and result are exchanged as
files.

The call is `python SCRIPT FOLDER REPETITIONS [WORD ...]`, where `work.npz` in FOLDER holds the input. The script does
the work REPETITIONS times. It then writes two files into FOLDER: its last result as `result.npy`, and as `times.json`
what the clock and the processor's clock show after each repetition, in seconds.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from experiments.benchmarks.workload import Timed

HERE = Path(__file__).parent
_JAX = "'jax==0.4.23' 'jaxlib==0.4.23' 'numpy<2' 'scipy<1.13'"
INSTALL = {
    "pfl": "pip install 'pfl[pytorch]==0.6.0'",
    "flower": "pip install 'flwr[simulation]==1.41.0' torch",
    "fedjax": f"pip install {_JAX} 'fedjax==0.0.17' 'dm-haiku==0.0.11'",
    "neural-tangents": f"pip install {_JAX} 'neural-tangents==0.6.5'",
    "keops": "pip install 'pykeops==2.3' numpy",  # KeOps needs a C++ compiler too
    "gpytorch": "pip install 'gpytorch==1.15.2' torch numpy",
}
PYTHON, THREADS = "NTKFL_PEER_PYTHON", "OMP_NUM_THREADS"  # environment variables of a candidate's process


def how_to_get(peer: str) -> str:
    """The sentence that says how to install a peer that was left out."""
    return f"{peer} is skipped: in an environment of its own, {INSTALL[peer]}; then --peer-python {peer}=PATH"


def interpreters(pairs: list[str]) -> dict[str, str]:
    """The path of each peer's interpreter, read from texts of the form PEER=PATH.

    Raises:
        ValueError: a text of another form, an unknown peer, or a path without a file.
    """
    python_of = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    for pair in pairs:
        peer, _, path = pair.partition("=")
        if peer not in INSTALL:
            raise ValueError(f"--peer-python is {pair!r}; it must be PEER=PATH with PEER one of {', '.join(INSTALL)}")
        if not Path(path).is_file():
            raise ValueError(f"--peer-python {peer} is {path!r}; there is no such interpreter")
    return python_of


def timed_there(script: str, given: Mapping[str, np.ndarray], repetitions: int, *words: str, counted: int = 1) -> Timed:
    """Run a script, and return its last result with the time of `counted` repetitions.

    The time is `counted` times the median time of the repetitions after the first. Another number of repetitions may
    have run.

    Raises:
        RuntimeError: the script failed; the message has the end of its output.
    """
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder, "work.npz"), allow_pickle=False, **given)
        command = [os.environ[PYTHON], "-I", str(HERE / f"{script}.py"), folder, str(repetitions), *words]
        environment = {THREADS: "1"} | os.environ
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode or not Path(folder, "times.json").exists():
            raise RuntimeError(f"{script} ended with {done.returncode}: {done.stderr[-2000:]}")
        seconds = np.diff(json.loads(Path(folder, "times.json").read_text()), axis=0)
        clock, processor = (counted * np.median(seconds, axis=0)).tolist()
        return Timed(np.load(Path(folder, "result.npy")), clock, processor)
