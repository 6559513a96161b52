"""The batches of a plan: their samples, and padding that a client alone does not need."""

import numpy as np
import pytest
import torch
from tiny_federations import classes

from ntkfl.training.engine.local_plan import LocalWork, local_plan
from ntkfl.training.engine.local_training import Batches

WORKS = [LocalWork(epochs=2, batch_size=3), LocalWork(batch_size=None, steps=2), LocalWork(batch_size=4, steps=5)]


@pytest.mark.parametrize("work", WORKS, ids=repr)
def test_a_step_has_the_samples_of_the_plan(work):
    data = classes()
    plan = local_plan(data.members(), [2, 0, 4], work, 1, 0, 0)
    batches = Batches(data, plan, torch.float32, alone=False)
    for step in range(plan.active.shape[1]):
        batch = batches.at(step)
        assert torch.equal(batch.x, data.x[plan.index[:, step]]) and torch.equal(batch.y, data.y[plan.index[:, step]])
        assert batch.real.dtype == torch.float32 and (batch.real.numpy() == plan.real[:, step]).all()


@pytest.mark.parametrize("work", WORKS, ids=repr)
def test_one_client_alone_has_the_real_places_and_no_others(work):
    data = classes()
    plan = local_plan(data.members(), [2], work, 1, 0, 0)
    padded, alone = (Batches(data, plan, torch.float64, alone=some) for some in (False, True))
    sizes = []
    for step in range(plan.active.shape[1]):
        real = torch.as_tensor(plan.real[0, step])
        batch, expected = alone.at(step), padded.at(step)
        assert torch.equal(batch.x[0], expected.x[0][real]) and torch.equal(batch.y[0], expected.y[0][real])
        assert batch.real.all()
        sizes.append(batch.real.shape[1])
    assert sizes == plan.real[0].sum(axis=1).tolist() and np.min(sizes) > 0
