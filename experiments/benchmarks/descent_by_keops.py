"""Gradient descent with H_inf by KeOps, which computes the kernel anew in every product.

`python descent_by_keops.py FOLDER REPETITIONS` needs KeOps. The script is called as `experiments.benchmarks.elsewhere`
describes.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from pykeops.numpy import LazyTensor

folder, repetitions = Path(sys.argv[1]), int(sys.argv[2])
work = np.load(folder / "work.npz")
x, y, rate, steps = work["x"], work["y"], float(work["rate"]), int(work["steps"])
cosine = (LazyTensor(x[:, None, :]) | LazyTensor(x[None, :, :])).clamp(-1.0, 1.0)  # the rows have norm 1
kernel = cosine * (np.pi - cosine.acos()) / (2 * np.pi)
marks = []
for _ in range(repetitions):
    outputs = np.zeros_like(y)
    for _ in range(steps):
        outputs = outputs + rate * (kernel @ (y - outputs))
    marks.append((time.perf_counter(), time.process_time()))
np.save(folder / "result.npy", outputs)
(folder / "times.json").write_text(json.dumps(marks))
