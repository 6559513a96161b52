"""Tests of the lower triangle of a matrix, which is copied from the upper one block by block."""

import numpy as np
import pytest

from ntkfl.gram import mirror


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64])
def test_the_upper_triangle_stays_and_the_lower_one_follows(n, monkeypatch):
    monkeypatch.setattr(mirror, "_ROWS", 3)
    matrix = np.random.default_rng(n).normal(size=(n, n))
    upper = np.triu(matrix)
    symmetric = mirror.mirrored(matrix)
    assert symmetric is matrix
    assert np.array_equal(np.triu(symmetric), upper) and np.array_equal(symmetric, symmetric.T)
