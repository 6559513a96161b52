"""H(0) by an implementation of neural-tangents' empirical kernel, run in an environment with the JAX that it needs.

`python gram_by_neural_tangents.py FOLDER REPETITIONS IMPLEMENTATION`: as in `experiments.benchmarks.elsewhere`.
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
    """signs . relu(hidden x) / sqrt m, one output."""
    return (jax.nn.relu(rows @ weights.T) @ scale)[:, None]


kernel = jax.jit(nt.empirical_ntk_fn(network, implementation=nt.NtkImplementation(implementation)))
marks = []
for _ in range(repetitions):
    entries = np.asarray(kernel(x, None, hidden))
    marks.append((time.perf_counter(), time.process_time()))
np.save(folder / "result.npy", entries)
(folder / "times.json").write_text(json.dumps(marks))
