"""The default number of clients that train together: the rule's promises, not its constants."""

from dataclasses import replace

import pytest
import torch
from tiny_federations import models, on_classes

from ntkfl.training.engine.federation import BY_PRODUCTS, MAPPED, ON_A_DEVICE, clients_at_once
from ntkfl.training.engine.local_plan import LocalWork

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
WIDTHS = (1, 16, 64, 256, 1024, 4096, 2**16)


def dense(width, dtype=torch.float32):
    shapes = {"hidden": (width, 32), "bias": (width,)}
    return {name: torch.empty(shape, dtype=dtype, device="meta") for name, shape in shapes.items()}


CONVOLUTION = {"filters": torch.empty(8, 1, 3, 3, device="meta"), "head": torch.empty(10, 128, device="meta")}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "device, products, most", [(CPU, False, MAPPED.group), (CPU, True, BY_PRODUCTS.group), (CUDA, False, ON_A_DEVICE)]
)
def test_parameters_and_activations_of_a_group_stay_within_its_bytes(device, products, most, dtype):
    for width in WIDTHS:
        for batch in (1, 32, 1000):
            count = clients_at_once(dense(width, dtype), (32,), batch, device, 10**6, products)
            assert count == 1 or count * (33 * width + batch * 32 + batch * width) * dtype.itemsize <= most


def test_larger_models_and_batches_leave_fewer_clients():
    counts = [clients_at_once(dense(width), (32,), 32, CPU, 10**6) for width in WIDTHS]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[3] > counts[-1] == 1
    assert clients_at_once(dense(256), (32,), 8, CPU, 10**6) > clients_at_once(dense(256), (32,), 800, CPU, 10**6)
    assert clients_at_once(dense(256), (32,), 32, CPU, 10**6) > clients_at_once(
        dense(256, torch.float64), (32,), 32, CPU, 10**6
    )


def test_a_wide_model_and_few_clients_are_trained_one_by_one():
    """Such clients were measured slower side by side than in a loop, at every number."""
    wide = {"hidden": torch.empty(512, 784, device="meta"), "head": torch.empty(10, 512, device="meta")}
    assert {clients_at_once(wide, (784,), 32, CPU, clients) for clients in (2, 10, 50, 1000)} == {1}
    middle = {"hidden": torch.empty(192, 784, device="meta"), "head": torch.empty(10, 192, device="meta")}
    assert [clients_at_once(middle, (784,), batch, CPU, 10) for batch in (10, 100, 1000)] == [10, 10, 1]
    assert [clients_at_once(dense(16), (32,), 32, CPU, clients) for clients in (1, 2, 3, 4, 5)] == [1, 1, 1, 4, 5]
    assert clients_at_once(dense(16), (32,), 32, CPU, 2, products=True) == 2


@pytest.mark.parametrize("products", [False, True])
def test_groups_are_as_few_as_fit_and_differ_by_little(products):
    for width in WIDTHS:
        most = clients_at_once(dense(width), (32,), 32, CPU, 10**6, products)
        for clients in (4, 7, 10, 50, 101, 1000):
            size = clients_at_once(dense(width), (32,), 32, CPU, clients, products)
            groups = -(-clients // size)
            assert 1 <= size <= clients
            if size > 1:
                assert (groups - 1) * most < clients and groups * (size - 1) < clients


def test_clients_that_convolve_are_trained_one_by_one_on_a_processor_only():
    assert clients_at_once(CONVOLUTION, (1, 6, 6), 32, CPU, 100) == 1
    assert clients_at_once(CONVOLUTION, (1, 6, 6), 32, CUDA, 100) > 1


def test_by_default_a_federation_follows_the_rule():
    run = on_classes()
    params = run.model.initial(run.seed)
    batch = 3  # the batch size of `run`, below the largest client's number of samples
    assert run.together(params, 5) == clients_at_once(params, (4,), batch, CPU, 5) > 1
    assert replace(run, at_once=5).together(params, 9) == 5
    assert replace(run, at_once=5).together(params, 3) == 3
    assert abs(models(run, 2) - models(replace(run, at_once=1), 2)).max() < 1e-12


def test_full_batches_count_the_largest_client(monkeypatch):
    run = on_classes(work=LocalWork(batch_size=None))
    params = run.model.initial(run.seed)
    largest = max(map(len, run.data.members()))
    asked = []

    def rule(params, shape, batch, *others):
        asked.append(batch)
        return clients_at_once(params, shape, batch, *others)

    monkeypatch.setattr("ntkfl.training.engine.federation.clients_at_once", rule)
    run.together(params, 5)
    assert asked == [largest]
