"""Tests of cohorts and batches, which do not depend on how clients are grouped.

The default number of clients that train together is tested too.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from tiny_federations import classes, models, on_classes

from ntkfl.training.engine.federation import BY_PRODUCTS, MAPPED, ON_A_DEVICE, clients_at_once
from ntkfl.training.engine.local_plan import LocalWork, cohort, local_plan
from ntkfl.training.engine.local_training import Batches

members = st.lists(st.integers(0, 12), min_size=1, max_size=6).map(
    lambda sizes: np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
)


@given(members, st.integers(1, 3), st.integers(1, 5), st.integers(0, 5))
def test_each_pass_has_every_sample_once_and_only_its_last_batch_is_short(own, epochs, size, number):
    plan = local_plan(own, range(len(own)), LocalWork(epochs, size), 0, number, 0)
    for c, samples in enumerate(own):
        a_pass = -(-len(samples) // size)
        assert plan.active[c].sum() == epochs * a_pass and plan.active[c, : epochs * a_pass].all()
        assert plan.ends_epoch[c].sum() == (epochs if len(samples) else 0)
        assert not plan.real[c, epochs * a_pass :].any()
        for e in range(epochs):
            steps = slice(e * a_pass, (e + 1) * a_pass)
            assert sorted(plan.index[c, steps][plan.real[c, steps]]) == samples.tolist()
            assert (plan.real[c, steps].sum(axis=1)[:-1] == size).all()
            assert not len(samples) or plan.ends_epoch[c, steps][-1]


@given(members, st.integers(0, 3), st.integers(0, 9))
def test_a_client_has_the_same_batches_and_draws_in_any_group(own, draws, seed):
    work = LocalWork(2, 3)
    together = local_plan(own, range(len(own)), work, seed, 4, draws)
    for c in range(len(own)):
        alone = local_plan(own, [c], work, seed, 4, draws)
        steps, size = alone.index.shape[1:]
        assert (together.real[c, :steps, :size] == alone.real[0]).all()
        assert (together.index[c, :steps, :size] == alone.index[0])[alone.real[0]].all()
        assert (together.draws[c, :steps] == alone.draws[0]).all()


def test_exact_steps_begin_further_passes_and_cut_the_last():
    plan = local_plan([np.arange(5)], [0], LocalWork(batch_size=2, steps=7), 0, 0, 0)
    assert plan.active.sum() == 7
    assert sorted(plan.index[0, :3][plan.real[0, :3]]) == list(range(5))
    assert plan.ends_epoch[0].tolist() == [False, False, True, False, False, True, False]


def test_rounds_seeds_and_clients_have_different_orders_and_draws():
    own = [np.arange(50), np.arange(50, 100)]
    work = LocalWork(batch_size=50)
    plans = [local_plan(own, [c], work, seed, number, 1) for c in (0, 1) for seed in (0, 1) for number in (0, 1)]
    assert len({tuple(plan.index[0, 0] % 50) for plan in plans}) == 8
    assert len({plan.draws.item() for plan in plans}) == 8


@given(st.integers(1, 40), st.floats(0.01, 1), st.integers(0, 5), st.integers(0, 5))
def test_a_cohort_is_a_sorted_set_of_the_asked_size(population, share, seed, number):
    chosen = cohort(population, share, seed, number)
    assert chosen == sorted(set(chosen)) and set(chosen) <= set(range(population))
    assert len(chosen) == max(1, round(share * population))


def test_cohorts_are_uniform():
    counts = np.bincount(np.concatenate([cohort(10, 0.3, 1, t) for t in range(2000)]), minlength=10)
    # A count is binomial(2000, .3), with the standard deviation 20.5. The chance that any of the ten counts is off by
    # five standard deviations or more is below 1e-5.
    assert np.abs(counts - 600).max() < 5 * 20.5


@pytest.mark.parametrize("share", [0, -0.1, 1.1, float("nan")])
def test_a_participation_that_is_no_share_is_refused(share):
    with pytest.raises(ValueError, match=r"participation is .*; it must lie in \(0, 1\]"):
        cohort(5, share, 0, 0)


@pytest.mark.parametrize("name", ["epochs", "batch_size", "steps"])
def test_work_is_positive(name):
    with pytest.raises(ValueError, match=f"{name} is 0; it must be a positive integer"):
        LocalWork(**{name: 0})


def test_every_client_may_have_a_number_of_steps_of_its_own():
    own = [np.arange(3), np.arange(3, 8), np.arange(8, 10)]
    work = LocalWork(batch_size=None, steps=(4, 1, 2))
    assert work.most_steps == 4
    plan = local_plan(own, [0, 2], work, 0, 0, 0)
    assert plan.active.sum(axis=1).tolist() == [4, 2] and plan.ends_epoch.sum() == 6


@pytest.mark.parametrize("steps", [(), (2, 0)])
def test_each_of_them_is_positive(steps):
    with pytest.raises(ValueError, match=r"steps is .*; it must be a positive integer"):
        LocalWork(steps=steps)


def test_independent_batches_are_drawn_from_all_samples_in_every_step():
    own = [np.arange(5), np.arange(5, 7)]
    plan = local_plan(own, [0, 1], LocalWork(batch_size=3, steps=2000, independent=True), 0, 0, 0)
    for c, size in ((0, 3), (1, 2)):
        assert (plan.real[c].sum(axis=1) == size).all()
        batches = [frozenset(row[real].tolist()) for row, real in zip(plan.index[c], plan.real[c], strict=True)]
        assert {len(batch) for batch in batches} == {size} and set().union(*batches) == set(own[c].tolist())
    sets, counts = np.unique([sorted(row) for row in plan.index[0]], axis=0, return_counts=True)
    assert len(sets) == 10 and np.abs(counts - 200).max() < 5 * 13.5  # All subsets occur equally often.


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
    """A wide model, and few clients, are trained one by one.

    In measurements, a loop over clients with such a model, or over so few clients, was faster than training them
    together.
    """
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
    batch = 3  # This is the batch size of `run`, which is below the largest client's number of samples.
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
