"""H(0) by one of neural-tangents' implementations of the empirical kernel.

`python gram_by_neural_tangents.py FOLDER REPETITIONS IMPLEMENTATION` needs an environment that has neural-tangents and
the version of JAX that it works with. The script is called as `experiments.benchmarks.elsewhere` describes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import neural_tangents as nt
import numpy as np

folder, repetitions, implementation = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
work = np.load(folder / "work.npz")
x, hidden, scale = (jnp.asarray(work[name]) for name in ("x", "hidden", "scale"))


def network(weights, rows):
    """The outputs a . relu(W x) / sqrt m of the network with one output; `scale` is a / sqrt m, `weights` is W."""
    return (jax.nn.relu(rows @ weights.T) @ scale)[:, None]


kernel = jax.jit(nt.empirical_ntk_fn(network, implementation=nt.NtkImplementation(implementation)))
marks = []
for _ in range(repetitions):
    entries = np.asarray(kernel(x, None, hidden))
    marks.append((time.perf_counter(), time.process_time()))
np.save(folder / "result.npy", entries)
(folder / "times.json").write_text(json.dumps(marks))
