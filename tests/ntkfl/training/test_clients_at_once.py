"""How many clients are trained together by default: the rule's promises, not its constants."""

from dataclasses import replace

import pytest
import torch
from tiny_federations import models, on_classes

from ntkfl.training.engine.federation import ON_A_DEVICE, STACKED, clients_at_once
from ntkfl.training.engine.local_plan import LocalWork

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def dense(width):
    return {"hidden": torch.empty(width, 32, device="meta"), "bias": torch.empty(width, device="meta")}


CONVOLUTION = {"filters": torch.empty(8, 1, 3, 3, device="meta"), "head": torch.empty(10, 128, device="meta")}


@pytest.mark.parametrize("device, most", [(CPU, STACKED), (CUDA, ON_A_DEVICE)])
def test_parameters_and_activations_stay_within_the_count(device, most):
    for width in (1, 64, 4096, 2**16):
        for batch in (1, 32, 1000):
            count = clients_at_once(dense(width), (32,), batch, device)
            assert count == 1 or count * (33 * width + batch * 32 + batch * width) <= most


def test_larger_models_and_batches_leave_fewer_clients():
    counts = [clients_at_once(dense(width), (32,), 32, CPU) for width in (16, 256, 4096, 2**16)]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[2] > counts[3] == 1
    assert clients_at_once(dense(256), (32,), 8, CPU) > clients_at_once(dense(256), (32,), 800, CPU)


def test_clients_that_convolve_are_trained_one_by_one_on_a_processor_only():
    assert clients_at_once(CONVOLUTION, (1, 6, 6), 32, CPU) == 1
    assert clients_at_once(CONVOLUTION, (1, 6, 6), 32, CUDA) > 1


def test_by_default_a_federation_follows_the_rule():
    run = on_classes()
    params = run.model.initial(run.seed)
    batch = 3  # batch of the LocalWork there, less than the largest client's samples
    assert run.together(params) == clients_at_once(params, (4,), batch, CPU) > 1
    assert replace(run, at_once=5).together(params) == 5
    assert abs(models(run, 2) - models(replace(run, at_once=1), 2)).max() < 1e-12


def test_full_batches_count_the_largest_client():
    run = on_classes(work=LocalWork(batch_size=None))
    params = run.model.initial(run.seed)
    largest = max(map(len, run.data.members()))
    assert run.together(params) == clients_at_once(params, (4,), largest, CPU)
