"""Gradient descent with H_inf as a kernel of GPyTorch, which keeps the whole matrix in memory.

`python descent_by_gpytorch.py FOLDER REPETITIONS` needs GPyTorch. The script is called as
`experiments.benchmarks.elsewhere` describes.
"""

import json
import math
import os
import sys
import time
from pathlib import Path

import gpytorch
import numpy as np
import torch

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
folder, repetitions = Path(sys.argv[1]), int(sys.argv[2])
work = np.load(folder / "work.npz")
x, y, rate, steps = torch.tensor(work["x"]), torch.tensor(work["y"]), float(work["rate"]), int(work["steps"])


class InfinitelyWide(gpytorch.kernels.Kernel):
    """The kernel H_inf, for rows of norm 1."""

    def forward(self, x1, x2, diag=False, **_):
        """The kernel of every row of the first input with every row of the second, or only of rows with equal index."""
        cosine = ((x1 * x2).sum(-1) if diag else x1 @ x2.mT).clamp(-1.0, 1.0)
        return cosine * (math.pi - cosine.acos()) / (2 * math.pi)


marks = []
with torch.no_grad():
    for _ in range(repetitions):
        kernel = InfinitelyWide()(x).evaluate_kernel()
        outputs = torch.zeros_like(y)
        for _ in range(steps):
            outputs = outputs + rate * (kernel @ (y - outputs))
        marks.append((time.perf_counter(), time.process_time()))
np.save(folder / "result.npy", outputs.numpy())
(folder / "times.json").write_text(json.dumps(marks))
