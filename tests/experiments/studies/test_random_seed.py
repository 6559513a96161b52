"""Tests of the seeds of a study's cells (its single measurements): numpy derives them from every value of the point.

Hence no two cells share random numbers.
"""

import numpy as np

from experiments.studies.random_seed import own_seed


def test_a_seed_is_numpys_of_all_parts():
    assert own_seed(3, 64, bits=32) == int(np.random.SeedSequence((3, 64)).generate_state(1)[0])
    assert own_seed(3, 64) == int(np.random.SeedSequence((3, 64)).generate_state(1, np.uint64)[0] >> 1)
    assert own_seed(3, "ab") == own_seed(3, 97, 98) and own_seed(3, 0.1) == own_seed(3, 0x3FB999999999999A)


def test_no_two_points_share_a_seed():
    points = [
        (seed, width, step, name) for seed in range(3) for width in (1, 2) for step in (0.1, 0.2) for name in "ab"
    ]
    for bits in (32, 63):
        assert len({own_seed(*point, bits=bits) for point in points}) == len(points)
        assert all(0 <= own_seed(*point, bits=bits) < 2**bits for point in points)
