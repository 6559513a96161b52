"""Tests of activation patterns that are packed into bits, and of counts of pairs of them.

The counts equal those of plain booleans for any code path, block, thread or rounding.
"""

from contextlib import nullcontext
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from ntkfl.gram import activations, finite, finite_width, initial, local_gram, packing, pair_counts, patterns
from ntkfl.initialisation import draw


@pytest.fixture
def packed_in_threads(monkeypatch):
    """Makes every count by packing, in three threads."""
    monkeypatch.setattr(pair_counts, "LOADING", -1)
    monkeypatch.setattr(pair_counts, "PARALLEL", -1)
    monkeypatch.setattr(pair_counts, "worker_threads", lambda: nullcontext(3))
    monkeypatch.setattr(finite_width, "_PATTERNS", 700)


@pytest.fixture
def plain(monkeypatch):
    """Makes no count by packing."""
    monkeypatch.setattr(pair_counts, "LOADING", float("inf"))
    monkeypatch.setattr(packing, "loaded", lambda: False)


def unpacked(words, width):
    bits = words[:, :, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)
    return bits.reshape(len(words), -1)[:, :width].astype(bool)


@settings(deadline=None, max_examples=60)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 200)).flatmap(
        lambda s: st.tuples(arrays(bool, (s[0], s[2])), arrays(bool, (s[1], s[2])))
    )
)
def test_words_keep_the_bits_and_count_their_pairs(both):
    rows, columns = both
    assert np.array_equal(unpacked(packing.words(rows), rows.shape[1]), rows)
    counts = np.ones((len(rows), len(columns)), np.int64)
    packing.kernels().count(packing.words(rows), packing.words(columns), False, counts)
    assert np.array_equal(counts, 1 + rows.astype(int) @ columns.T.astype(int))
    counts = np.zeros((len(rows), len(rows)), np.int64)
    packing.kernels().count(packing.words(rows), packing.words(rows), True, counts)
    assert np.array_equal(np.triu(counts), np.triu(rows.astype(int) @ rows.T.astype(int)))


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30), m=st.integers(1, 300), d=st.integers(1, 6), ties=st.booleans()
)
def test_packed_patterns_are_the_patterns(seed, n, m, d, ties):
    rng = np.random.default_rng(seed)
    x, u = (rng.integers(-2, 3, (k, d)).astype(float) if ties else rng.normal(size=(k, d)) for k in (n, m))
    x[~x.any(axis=1), 0] = 1.0
    assert np.array_equal(unpacked(packing.active_words(x, u), m), activations(x, u))


def test_signs_that_float32_gets_wrong_are_right():
    rng = np.random.default_rng(1)
    x, u = rng.normal(size=(40, 5)), rng.normal(size=(200, 5))
    # The neurons become orthogonal to the first row, up to rounding.
    u[::2] -= np.outer(u[::2] @ x[0], x[0]) / (x[0] @ x[0])
    exact = activations(x, u)
    single = (patterns.unit_rows(x) @ patterns.unit_rows(u).T) >= 0
    assert (single[0] != exact[0]).any()
    assert np.array_equal(unpacked(packing.active_words(x, u), len(u)), exact)


def test_more_undecided_signs_than_there_is_room_for():
    x, u = np.eye(4)[:2].repeat(30, axis=0), np.eye(4)[2:].repeat(70, axis=0)
    assert unpacked(packing.active_words(x, u), len(u)).all()  # All products are 0.


def test_many_features_take_the_other_way():
    rng = np.random.default_rng(2)
    x, u = rng.normal(size=(3, patterns.SINGLE + 1)), rng.normal(size=(70, patterns.SINGLE + 1))
    assert np.array_equal(unpacked(packing.active_words(x, u), 70), activations(x, u))


def grams(x, z, owner):
    u, w = draw(1500, x.shape[1], 0).hidden, draw(1500, x.shape[1], 1).hidden
    masks = np.random.default_rng(0).random((len(x), 1500)) < 0.5
    return [
        finite(x, u),
        finite(x, u, w),
        finite(x, u, w, z),
        initial(x, 1500, 0),
        local_gram(x, owner, u, np.stack([w, u])),
        local_gram(x, owner, u, np.stack([w, u]), masks),
    ]


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    return rng.normal(size=(13, 4)), rng.normal(size=(6, 4)), np.arange(13) % 2


@pytest.fixture
def plain_grams(data, plain):
    return grams(*data)


def test_every_gram_matrix_is_the_same_packed_in_threads_and_plain(plain_grams, data, packed_in_threads):
    for packed, other in zip(grams(*data), plain_grams, strict=True):
        assert np.array_equal(packed, other)


def test_an_error_in_a_thread_is_raised(packed_in_threads):
    with pytest.raises(MemoryError, match="no room"):
        pair_counts.summed([Mock(side_effect=MemoryError("no room"))] * 20, (3, 3), 10)
