"""Cohorts and batches: every sample once a pass, the same draws however clients are grouped."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ntkfl.training.engine.local_plan import LocalWork, cohort, local_plan

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
    # a count is binomial(2000, .3), standard deviation 20.5; any of ten counts is five deviations off with chance
    # below 1e-5
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
    assert len(sets) == 10 and np.abs(counts - 200).max() < 5 * 13.5  # all subsets equally often
