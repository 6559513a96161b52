"""Tests of FedLC: cross-entropy on logits that class counts calibrate.

Some clients lack classes.
"""

import numpy as np
import pytest
import torch
from tiny_federations import classes, models, network, on_classes
from torch.nn import functional

from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Batch, Step
from ntkfl.training.methods import build
from ntkfl.training.objectives import CalibratedCrossEntropy, CrossEntropy, HalfSquares

pytestmark = pytest.mark.method("fedlc")


def distance(one, other, rounds=2):
    return np.abs(models(one, rounds) - models(other, rounds)).max()


def step(counts, dtype=torch.float64):
    return Step({}, {}, torch.tensor(counts, dtype=dtype), torch.zeros(0), torch.tensor(False), 0.1)


def test_without_calibration_it_is_fed_avg_also_where_classes_are_absent():
    data = classes()
    assert (data.class_counts() == 0).any()
    assert distance(on_classes("fedlc", options={"tau": 0.0}), on_classes()) == 0


def test_with_equal_counts_it_is_fed_avg():
    y, owner = np.tile([0, 1, 2], 6), np.repeat([0, 1, 2], [3, 9, 6])
    x = np.random.default_rng(0).standard_normal((18, 4))
    data = FederatedData(torch.tensor(x), torch.tensor(y), owner, 3, classes=3)
    assert distance(on_classes("fedlc", options={"tau": 2.0}, data=data), on_classes(data=data)) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_absent_class_leaves_the_softmax_and_padding_of_that_class_does_nothing(dtype):
    model = network(dtype)
    w = model.initial(0)
    x = torch.tensor(np.random.default_rng(1).standard_normal((5, 4)), dtype=dtype)
    # Class 1 occurs in padding only.
    y, real = torch.tensor([0, 2, 2, 1, 1]), torch.tensor([1, 1, 1, 0, 0], dtype=dtype)
    objective, now = CalibratedCrossEntropy(0.6), step((16, 0, 81), dtype)
    gradient, value = torch.func.grad_and_value(lambda v: objective(model, v, Batch(x, y, real), now))(w)
    shift = torch.tensor([0.6 / 2, 0.6 / 3], dtype=dtype)
    expected = functional.cross_entropy(model.outputs(w, x[:3])[:, [0, 2]] - shift, torch.tensor([0, 1, 1]))
    assert abs(value - expected) < 20 * torch.finfo(dtype).eps
    assert torch.equal(gradient["head.weight"][1], torch.zeros(5, dtype=dtype)) and gradient["head.bias"][1] == 0
    assert all(torch.isfinite(g).all() and g.abs().max() > 0 for g in gradient.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_client_without_samples_has_no_gradient(dtype):
    model = network(dtype)
    batch = Batch(torch.ones(2, 4, dtype=dtype), torch.tensor([0, 1]), torch.zeros(2, dtype=dtype))
    objective, now = CalibratedCrossEntropy(0.6), step((0, 0, 0), dtype)
    gradient = torch.func.grad(lambda v: objective(model, v, batch, now))(model.initial(0))
    assert all((g == 0).all() for g in gradient.values())


def test_rarer_classes_are_given_a_larger_margin():
    model = network()
    w = model.initial(0)
    x = torch.ones(1, 4, dtype=torch.float64)
    losses = []
    for objective in (CrossEntropy(), CalibratedCrossEntropy(1.0)):
        batches = [Batch(x, torch.tensor([c]), torch.ones(1, dtype=torch.float64)) for c in (0, 2)]
        losses.append([float(objective(model, w, batch, step((1, 10, 1000)))) for batch in batches])
    rare, common = np.array(losses[1]) - np.array(losses[0])
    assert rare > 0 > common


@pytest.mark.parametrize("method", ["fedlc", "fedgucci+"])
def test_what_it_cannot_calibrate_is_refused(method):
    with pytest.raises(ValueError, match="tau, the strength of the calibration, is -1; it must be 0 or more"):
        build(method, CrossEntropy(), tau=-1.0)
    with pytest.raises(ValueError, match="logits are shifted in a cross-entropy only"):
        build(method, HalfSquares())
    assert build(method, CrossEntropy()).needs == {"classes"}
