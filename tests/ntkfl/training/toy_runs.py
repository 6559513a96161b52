"""Runs of a second or less, for tests.

Clients and server keep states, momenta are kept between rounds, and only some clients take part in a round.
"""

from dataclasses import replace

import torch
from tiny_federations import classes, network

from ntkfl.training.methods import build
from ntkfl.training.objectives import CrossEntropy
from ntkfl.training.runs.training_run import run
from ntkfl.training.tree import flatten

KEYS = {
    "dtype": "float64",
    "participation": 0.5,
    "momentum": 0.9,
    "rate_decay": 0.95,
    "keep_optimizer": True,
    "batch_size": 3,
    "epochs": 2,
    "at_once": 1,
    "seed": 3,
    "train_loss": True,
    "client_accuracy": True,
}


def toy_data():
    """Returns clients that differ in size, and a test set."""
    data, test = classes(), classes(seed=7)
    return replace(data, x_test=test.x, y_test=test.y, name="toy")


def objects(method=None):
    """Returns the objects of a run: data, model, and a method if it is named."""
    given = {"data": toy_data(), "model": network()}
    return given | ({"method": build(method, CrossEntropy())} if method else {})


def toy_run(method="feddyn", **changes):
    """Returns a run of 4 rounds."""
    return run(method, **objects() | {"rounds": 4} | KEYS | changes)


def tensors(run):
    """Returns all tensors of the state, by path."""
    state = run.state
    return flatten({"server": state.server, "clients": state.clients, "seen": state.has_trained})


def same(left, right):
    """Says whether two runs ended in bitwise the same state, with names in the same order."""
    left, right = tensors(left), tensors(right)
    return list(left) == list(right) and all(torch.equal(left[name], right[name]) for name in left)


def measured(run):
    """Returns all measured columns but the times, as text, in which NaN equals NaN and no digit is lost."""
    return {name: [repr(value) for value in column] for name, column in run.metrics.items() if name != "seconds"}
