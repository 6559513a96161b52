"""Rounds of federated training by fedjax.

`python rounds_by_fedjax.py FOLDER ROUNDS` is run by the interpreter of an environment that has fedjax; no module
imports it. The script is called as `experiments.benchmarks.elsewhere` describes. Its result is the weights after the
last round.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from fedjax.algorithms.fed_avg import federated_averaging

folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
work = np.load(folder / "work.npz")
scale = jnp.asarray(work["scale"])


def loss(params, batch, key):
    """The loss |f - y|^2 / 2, summed over the client's samples."""
    return ((jax.nn.relu(batch["x"] @ params["hidden"].T) @ scale - batch["y"]) ** 2).sum() / 2


clients = []
for user in np.unique(work["owner"]):
    own = work["owner"] == user
    dataset = fedjax.ClientDataset({name: work[name][own] for name in ("x", "y")})
    clients.append((b"%d" % user, dataset, jax.random.PRNGKey(int(user))))
largest = int(np.bincount(work["owner"]).max())
batches = fedjax.ShuffleRepeatBatchHParams(
    largest, num_epochs=None, num_steps=int(work["local_steps"]), skip_shuffle=True
)
steps = fedjax.optimizers.sgd(float(work["rate"]))
algorithm = federated_averaging(jax.grad(loss), steps, fedjax.optimizers.sgd(1.0), batches)
state, marks = algorithm.init({"hidden": jnp.asarray(work["hidden"])}), []
for _ in range(rounds):
    state, _ = algorithm.apply(state, clients)
    jax.block_until_ready(state.params)
    marks.append((time.perf_counter(), time.process_time()))
np.save(folder / "result.npy", np.asarray(state.params["hidden"]))
(folder / "times.json").write_text(json.dumps(marks))
