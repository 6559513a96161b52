"""Tests of partitions: every sample has one client, every client has a sample.

Each kind of partition has the property that its name promises.
"""

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from ntkfl.partition import assign_owners, generator

seeds = st.integers(0, 2**32)
alphas = st.sampled_from([1e-300, 0.01, 0.5, 1.0, 100.0, 1e100])


@st.composite
def labelled(draw):
    """Draws labels of up to 4 classes, as numbers or one-hot, and a number of clients for which the labels suffice."""
    classes = draw(st.lists(st.integers(0, 3), min_size=3, max_size=30).filter(lambda c: len(set(c)) < len(c)))
    y = np.eye(4)[classes] if draw(st.booleans()) else np.array(classes, float) - 1.5
    return y, draw(st.integers(1, len(classes)))


@st.composite
def splits(draw):
    y, clients = draw(labelled())
    dirichlet = alphas.map(lambda alpha: f"dirichlet:{alpha!r}")
    shards = st.integers(1, len(y) // clients).map(lambda s: f"shards:{s}")
    return draw(st.one_of(st.just("iid"), dirichlet, shards)), y, clients


@given(split=splits(), seed=seeds)
@settings(deadline=None, max_examples=150)
def test_every_sample_has_one_client_and_every_client_a_sample(split, seed):
    kind, y, clients = split
    owner = assign_owners(kind, y, clients, seed)
    assert owner.shape == (len(y),)
    assert np.issubdtype(owner.dtype, np.integer)
    assert np.array_equal(np.unique(owner), np.arange(clients))
    assert np.array_equal(owner, assign_owners(kind, y, clients, seed))


@given(data=labelled(), seed=seeds)
@settings(deadline=None, max_examples=60)
def test_iid_sizes_differ_by_at_most_one_and_labels_do_not_matter(data, seed):
    y, clients = data
    owner = assign_owners("iid", y, clients, seed)
    sizes = np.bincount(owner)
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(owner, assign_owners("iid", np.linspace(0, 1, len(y)), clients, seed))


@given(split=splits(), seed=seeds)
@settings(deadline=None, max_examples=60)
def test_only_the_classes_matter_not_how_they_are_written(split, seed):
    kind, y, clients = split
    classes = y.argmax(axis=1) if y.ndim == 2 else y
    codes = np.unique(classes, return_inverse=True)[1]
    same = assign_owners(kind, 10.0 * codes - 7, clients, seed)
    assert np.array_equal(assign_owners(kind, codes[:, None], clients, seed), same)
    if y.ndim == 1:
        assert np.array_equal(assign_owners(kind, y, clients, seed), same)


@given(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4), clients=st.integers(1, 5), seed=seeds)
@settings(deadline=None, max_examples=60)
def test_one_shard_each_is_a_run_of_the_samples_in_class_order(sizes, clients, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes)).astype(float)
    assume(clients <= len(y) and (len(sizes) < len(y) or len(y) <= 2))
    owner = assign_owners("shards:1", y, clients, seed)
    counts = np.bincount(owner)
    assert counts.max() - counts.min() <= 1
    spans = sorted((y[owner == c].min(), y[owner == c].max()) for c in range(clients))
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_shards_bound_the_number_of_classes_of_a_client():
    """With shards, a client has a bounded number of classes.

    10 classes of 12 samples are cut into 20 shards of 6. No shard has samples of two classes, so that two shards have
    at most two classes.
    """
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(10.0), 12))
    kinds = [len(set(y[assign_owners("shards:2", y, 10, seed) == c])) for seed in range(20) for c in range(10)]
    assert max(kinds) == 2
    assert np.bincount(assign_owners("shards:2", y, 10, 0)).tolist() == [12] * 10


def label_spread(kind: str) -> float:
    """Returns the mean over clients of the distance of their share of class 1 from one half."""
    y = np.repeat([-1.0, 1.0], 500)
    spread = []
    for seed in range(20):
        owner = assign_owners(kind, y, 4, seed)
        spread += [abs((y[owner == c] == 1).mean() - 0.5) for c in range(4)]
    return float(np.mean(spread))


def test_dirichlet_goes_from_one_class_each_to_iid():
    spread = [label_spread(f"dirichlet:{alpha}") for alpha in (0.01, 0.5, 10, 1000)]
    assert spread == sorted(spread, reverse=True)
    assert spread[0] > 0.45  # At the smallest alpha almost every client has a single class.
    assert spread[-1] < 0.05
    assert abs(spread[-1] - label_spread("iid")) < 0.02


def test_dirichlet_class_shares_have_the_dirichlet_variance():
    """Class shares have the variance of Dirichlet's distribution.

    A share p_k of Dirichlet(a 1_N) has variance (N-1) / (N^2 (N a + 1)), and sampling n_c adds E[p(1-p)] / n_c.
    """
    clients, alpha, size, draws = 4, 0.5, 400, 600
    y = np.tile([0.0, 1.0], size)
    shares = [np.mean(assign_owners(f"dirichlet:{alpha}", y, clients, seed)[y == 0] == 1) for seed in range(draws)]
    variance = (clients - 1) / (clients**2 * (clients * alpha + 1))
    assert abs(np.mean(shares) - 1 / clients) < 5 * np.sqrt(variance / draws)
    # Beta(1/2, 3/2) has kurtosis 3, so the tolerance is over 4 standard errors.
    assert np.var(shares) == pytest.approx(variance, rel=0.25)


def test_dirichlet_repair_fills_every_empty_client_from_the_largest():
    """Every empty client gets a sample from the largest client.

    At alpha 1e-300 each class goes whole to one client, so most of 10 clients are empty before this repair.
    """
    for seed in range(10):
        sizes = np.sort(np.bincount(assign_owners("dirichlet:1e-300", np.repeat([0.0, 1.0], 20), 10, seed)))
        assert sizes[:8].tolist() == [1] * 8
        assert sizes.sum() == 40


def test_seeds_and_streams_give_different_draws():
    y = np.repeat([0.0, 1.0], 50)
    owners = {assign_owners("iid", y, 4, seed).tobytes() for seed in range(20)}
    assert len(owners) == 20
    assert generator(0, 0).random() != generator(0, 1).random()


Y = np.array([1.0, -1.0, 1.0, 1.0])
BAD = [
    (("idd", Y, 2, 0), "there is no partition 'idd'. Did you mean 'iid'? It is one of iid, dirichlet:ALPHA, shards:S,"),
    (("Dirchlet:1", Y, 2, 0), "there is no partition 'Dirchlet:1'. Did you mean 'dirichlet:ALPHA'?"),
    (("zzz", Y, 2, 0), "there is no partition 'zzz'. It is one of"),
    (("given", Y, 2, 0), "partition 'given' is for a file with an array or column named owner; these data have none"),
    (("iid:2", Y, 2, 0), "partition 'iid:2': 'iid' takes no parameter"),
    (("dirichlet", Y, 2, 0), "partition 'dirichlet': '' is not a number; write 'dirichlet:0.5', say"),
    (("shards:two", Y, 2, 0), "partition 'shards:two': 'two' is not a number; write 'shards:2', say"),
    (("dirichlet:0", Y, 2, 0), "alpha is 0; it must be positive and at most 1e+100"),
    (("dirichlet:-1", Y, 2, 0), "alpha is -1; it must be positive"),
    (("dirichlet:nan", Y, 2, 0), "alpha is nan; it must be positive"),
    (("dirichlet:inf", Y, 2, 0), "alpha is inf; it must be positive and at most 1e+100"),
    (("shards:0", Y, 2, 0), "S is 0; it must be a positive integer"),
    (("shards:1.5", Y, 2, 0), "S is 1.5; it must be a positive integer"),
    (("shards:inf", Y, 2, 0), "S is inf; it must be a positive integer"),
    (("shards:3", Y, 2, 0), "partition 'shards:3' cuts 2 x 3 shards from 4 samples; S must be at most 2"),
    (("iid", Y, 0, 0), "clients is 0; it must be a positive integer"),
    (("iid", Y, 2.0, 0), "clients is 2.0; it must be a positive integer"),
    (("iid", Y, True, 0), "clients is True; it must be a positive integer"),
    (("iid", Y, 5, 0), "5 clients cannot share 4 samples: every client needs at least one"),
    (("iid", Y, 2, -1), "seed is -1; it must be an integer, 0 or more"),
    (("iid", Y, 2, 0.5), "seed is 0.5; it must be an integer, 0 or more"),
    (("dirichlet:1", np.arange(3.0), 2, 0), "needs classes; y has 3 distinct values on 3 samples (at most 100,"),
    (("shards:1", np.arange(202) // 2, 2, 0), "needs classes; y has 101 distinct values on 202 samples"),
    (("shards:1", np.array([[1, 0], [1, 1]]), 2, 0), "needs classes; row 1 of y is [1.0, 1.0], not one-hot"),
    (("shards:1", np.array([[1, 0.5], [0, 1]]), 2, 0), "needs classes; row 0 of y is [1.0, 0.5], not one-hot"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_what_is_no_partition_is_refused(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        assign_owners(*arguments)
