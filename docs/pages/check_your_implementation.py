# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Check your implementation
#
# You have written FedAvg, or a framework did it for you. Is your code really FedAvg? The code learns, but learning
# says little. Code with wrong client weights, with an ignored learning-rate schedule, or with a momentum that is not
# reset learns too, and its accuracy is only a few points lower.
#
# `ntkfl conform run` gives your code small problems, and tells it which client trains on which samples in every
# round. After each round the command compares your weights with the weights of a plain loop, to $10^{-10}$. If the
# weights differ, the command names the first round and tensor that differ. If your code computes a known variant of
# the method, the command names the variant too.
#
# ## An implementation
#
# Here is FedAvg in thirty lines, as one might write it. The code has a fault that is easily overlooked.

# %%
# %%writefile my_fedavg.py
import numpy as np


class Client:
    def __init__(self, momentum, weight_decay):
        self.momentum, self.weight_decay = momentum, weight_decay
        self.buffer = None

    def fit(self, weights, batches, gradient, rate):
        weights = {name: value.copy() for name, value in weights.items()}
        for x, y in batches:
            gradients = gradient(weights, x, y)
            if self.buffer is None:
                self.buffer = {name: np.zeros_like(value) for name, value in weights.items()}
            for name in weights:
                step = gradients[name] + self.weight_decay * weights[name]
                self.buffer[name] = self.momentum * self.buffer[name] + step
                weights[name] -= rate * self.buffer[name]
        return weights


class Server:
    def __init__(self, weights):
        self.weights = weights

    def average(self, models, sizes):
        for name in self.weights:
            self.weights[name] = sum(n * model[name] for n, model in zip(sizes, models, strict=True)) / sum(sizes)


# %% [markdown]
# ## An adapter
#
# An adapter is a Python file with one function, `run(case)`. It returns, or yields, the global model after every
# round: a dictionary of arrays. The case provides everything else:
#
# - `case.method` and `case.options` name the method and its options. For methods that you do not have, raise a
#   `NotImplementedError`.
# - `case.start` is the first model as one vector. `case.tensors(vector)` makes named tensors of a vector, and
#   `case.flat(tensors)` makes a vector of the tensors again. `case.gradient(vector, x, y)` returns the gradient of
#   the loss of a batch. Your framework may also compute the gradient itself (`case.model` names the network).
# - `case.rounds` is the number of rounds. In round `t` the local rate is `case.rates[t]`, the clients that train are
#   `case.cohort(t)`, and each of them takes one local step for each batch of `case.batches(t, client)`. `case.sizes`
#   are the clients' numbers of samples.
# - `case.momentum`, `case.weight_decay` and `case.clip` describe the local optimizer. If your code is only a server,
#   or only merges models, the adapter takes the trained models of the clients from `case.trained(t, client, vector)`.
#
# Yielded models are copied before the adapter continues, so you may yield a `state_dict()`, or the same array again.
# If you return a list instead, each round's arrays must be separate copies.

# %%
# %%writefile adapter.py
from my_fedavg import Client, Server


def run(case):
    if case.method != "fedavg" or case.options["server_rate"] != 1 or case.clip is not None:
        raise NotImplementedError("only plain FedAvg")

    def gradient(weights, x, y):
        return case.tensors(case.gradient(case.flat(weights), x, y))

    server = Server(case.tensors(case.start.copy()))
    clients = [Client(case.momentum, case.weight_decay) for _ in case.sizes]
    for t in range(case.rounds):
        cohort = case.cohort(t)
        models = []
        for i in cohort:
            batches = [(batch.x, batch.y) for batch in case.batches(t, i)]
            models.append(clients[i].fit(server.weights, batches, gradient, case.rates[t]))
        server.average(models, [case.sizes[i] for i in cohort])
        yield server.weights


# %% [markdown]
# ## What it does

# %%
# !ntkfl conform run adapter.py --method fedavg

# %% [markdown]
# In the cases without momentum the code computes FedAvg. In the three cases with momentum the code does not compute
# FedAvg. The buffer of the momentum is made once and kept as long as the client exists, so from its second round on a
# client begins with the momentum of an old model. Clients of FedAvg keep nothing between rounds. The name of a
# variant says what an implementation computes, not whether this is good. Somebody may want exactly this variant.
#
# ## Without the fault

# %%
from pathlib import Path

text = Path("my_fedavg.py").read_text()
text = text.replace("        for x, y in batches:\n", "        self.buffer = None\n        for x, y in batches:\n")
written = Path("my_fedavg.py").write_text(text)

# %%
# !ntkfl conform run adapter.py --method fedavg --markdown conform.md

# %% [markdown]
# The Markdown file has the table and a badge for a README:

# %%
print(Path("conform.md").read_text())

# %% [markdown]
# `--json FILE` saves everything, including the difference in each case, and `ntkfl report --conformance FILE --out
# DIR` makes a page of this file. The exit status is 0 if the weights are equal in all cases that were run, and 1
# otherwise. So the command can be a test in your pipeline.
#
# ## In another environment
#
# The adapter runs in a process of its own. Name the Python interpreter of the environment that has your framework.
# This environment needs numpy, and nothing of this project.
#
# ```
# ntkfl conform run adapter.py --python /path/to/my/environment/bin/python --limit 20
# ```
#
# Nothing that the adapter returns is unpickled or imported here. If the adapter crashes, hangs, or returns NaN, half
# precision, wrong names or wrong shapes, one line says so for that case, and the next case is run. An adapter in
# float32 may differ by up to 16 times the sum of two errors: the error that the plain loop itself makes in float32,
# and one rounding to float32.
#
# ## The methods, and variants by name
#
# There are cases for every method, and without `--method` the cases of all methods are run. The next command lists
# the known variants of a method:

# %%
# !ntkfl conform variants --method scaffold

# %% [markdown]
# Each variant changes one or two lines of the plain loop. Tests make sure that the cases tell any two variants apart,
# in float64 and in float32. If no variant explains the difference, pairs of variants are tried. If no pair explains
# it either, the report says *no known variant*, and where the difference begins.
#
# From Python:

# %%
from ntkfl.conformance import conformance

report = conformance("adapter.py", ["fedavg"])
print(report.conforms, report.methods[0].outcome.value, sorted({case.precision for case in report.methods[0].cases}))

# %% [markdown]
# For implementations in other languages, `ntkfl conform cases --out DIR` writes problems, options, batches and
# reference trajectories to JSON files (with a schema) and to npz files without pickles. The `README.md` in the folder
# says what is in the files.
#
# ## Limits
#
# - Equal means equal on these cases, which have small networks, four rounds and five clients. A fault that shows only
#   in the hundredth round, or in half precision, is not found.
# - The cases prescribe the cohorts and the batches. So they do not test how cohorts are drawn or how data are
#   shuffled. They do not test evaluation or communication either.
# - An adapter is tested together with the framework. If a framework leaves local training to its users, the local
#   steps that are tested are those that the adapter takes.
#
# How published frameworks do on these cases: [conformance of frameworks](../conformance.md).
