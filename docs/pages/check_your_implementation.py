# ---
# jupyter:
#   slow: true
# ---

# %% [markdown]
# # Check your implementation
#
# You have written FedAvg, or a framework did it for you. Is it really FedAvg? It learns, but that says little: code
# with wrong client weights, an ignored learning-rate schedule or a momentum that is not reset learns too, and ends a
# few points lower.
#
# `ntkfl conform run` gives your code small problems, tells it which client trains on which samples in every round, and
# compares its weights with those of a plain loop, round by round, to $10^{-10}$. If they differ, it names the first
# round and tensor that differ, and the known variant of the method that your code computes.
#
# ## An implementation
#
# Thirty lines, as one might write them. They have a fault that is easily overlooked.

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
# - `case.method` and `case.options`; raise a `NotImplementedError` for methods that you do not have.
# - `case.start`, the first model as one vector; `case.tensors(vector)` makes named tensors of it,
#   `case.flat(tensors)` a vector again. `case.gradient(vector, x, y)` is the gradient of the loss of a batch; your
#   framework may compute it itself (`case.model` names the network).
# - `case.rounds`, and of round `t` the local rate `case.rates[t]`, the clients `case.cohort(t)` and the local steps of
#   each, `case.batches(t, client)`. `case.sizes` are the numbers of samples.
# - `case.momentum`, `case.weight_decay`, `case.clip`: the local optimizer. An adapter for a server or for merging
#   takes the local steps from `case.trained(t, client, vector)`.
#
# Yielded models are copied before the adapter continues, so you may yield a `state_dict()`, or the same array again. In
# a returned list every round needs its own memory.

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
# In the cases without momentum it is FedAvg. In the three cases with momentum it differs: the buffer is made once and
# lives as long as the client, so from its second round on a client begins with the momentum of an old model. Clients
# of FedAvg keep nothing between rounds. A variant says what an implementation computes, not whether that is good:
# somebody may want exactly this.
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
# `--json FILE` keeps everything, every case with its difference, and `ntkfl report --conformance FILE --out DIR`
# makes a page of it. The exit status is 0 when all cases that were run are equal, else 1, so the command can be a
# test in your pipeline.
#
# ## In another environment
#
# The adapter runs in a process of its own. Name the interpreter that has your framework: it needs numpy, and nothing
# of this project.
#
# ```
# ntkfl conform run adapter.py --python /path/to/my/environment/bin/python --limit 20
# ```
#
# Nothing that the adapter returns is unpickled or imported here. If it crashes, hangs, or returns NaN, half
# precision, wrong names or shapes, one line says so for that case, and the next one is run. An adapter in float32 may
# differ by 16 times the error that the plain loop itself makes in float32.
#
# ## The methods, and variants by name
#
# All methods have cases; without `--method` all are run. This lists the known variants of a method:

# %%
# !ntkfl conform variants --method scaffold

# %% [markdown]
# Each variant changes one or two lines of the plain loop. Tests make sure that the cases tell any two variants apart,
# in float64 and in float32. If no variant explains the difference, pairs of variants are tried; if that fails too, the
# report says *no known variant*, and where the difference begins.
#
# From Python:

# %%
from ntkfl.conformance import conformance

report = conformance("adapter.py", ["fedavg"])
print(report.conforms, report.methods[0].outcome.value, sorted({case.precision for case in report.methods[0].cases}))

# %% [markdown]
# For other languages `ntkfl conform cases --out DIR` writes problems, options, batches and reference trajectories as
# JSON (with its schema) and npz files without pickles; the `README.md` in the folder says what is in them.
#
# ## Limits
#
# - Equal means equal on these cases: small networks, four rounds, five clients. A fault that shows only in the
#   hundredth round, or in half precision, is not seen.
# - What a case does not ask for is not tested: how cohorts are drawn, how data are shuffled, evaluation, communication.
# - An adapter is tested together with the framework: if a framework leaves local training to its users, the local
#   steps tested are the adapter's own.
#
# How published frameworks do on these cases: [conformance of frameworks](../conformance.md).
