"""Tests of kinds of neurons against their definition: two neurons are of one kind if they always behave alike.

The signs of such neurons are equal, and so are their patterns at every step so far.
"""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ntkfl.algorithm1.reference import NeuronKinds


@settings(deadline=None)
@given(m=st.integers(1, 30), n=st.integers(1, 3), steps=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_neurons_are_of_a_kind_where_signs_and_all_patterns_agree(m, n, steps, seed):
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], m)
    kinds, history = NeuronKinds(signs), [signs]
    for _ in range(steps):
        active = rng.random((n, m)) < rng.choice([0.05, 0.5, 1.0])
        before, values = kinds.of, rng.random(len(kinds.first))
        parent = kinds.part(active)
        history += list(active)
        assert np.array_equal((values if parent is None else values[parent])[kinds.of], values[before])
        alike = (np.array(history)[:, :, None] == np.array(history)[:, None]).all(axis=0)
        assert np.array_equal(kinds.of[:, None] == kinds.of, alike)
        assert np.array_equal(kinds.of[kinds.first], np.arange(len(kinds.first)))
        assert np.array_equal(kinds.counts, np.bincount(kinds.of))


@pytest.mark.parametrize("repeated", [1, 3])
def test_patterns_seen_before_split_nothing(repeated):
    active = np.array([[True, False, True, False]])
    kinds = NeuronKinds(np.array([1.0, 1.0, 1.0, -1.0]))
    assert list(kinds.part(active)) == [0, 1, 1]
    assert all(kinds.part(active) is None for _ in range(repeated))
