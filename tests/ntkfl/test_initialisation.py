"""Tests of initial weights: a seed gives one network, however it is drawn, with the stated distribution."""

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy import stats

from ntkfl.initialisation import CHUNK, blocks, draw


@settings(deadline=None, max_examples=15)
@given(width=st.integers(1, 5 * CHUNK), block=st.integers(1, 6), seed=st.integers(0, 2**63 - 1))
def test_numbers_do_not_depend_on_the_block(width, block, seed):
    whole, pieces = draw(width, 3, seed), list(blocks(width, 3, seed, block=block))
    assert all(len(p.signs) == len(p.hidden) <= block * CHUNK for p in pieces)
    assert np.array_equal(whole.hidden, np.concatenate([p.hidden for p in pieces]))
    assert np.array_equal(whole.signs, np.concatenate([p.signs for p in pieces]))


@settings(deadline=None, max_examples=10)
@example(narrow=300, extra=2000, seed=0)  # The narrow network needs the first key only; the wide one needs three keys.
@given(narrow=st.integers(1, 3000), extra=st.integers(1, 3000), seed=st.integers(0, 100))
def test_a_narrow_network_is_the_beginning_of_a_wide_one(narrow, extra, seed):
    small, large = draw(narrow, 2, seed), draw(narrow + extra, 2, seed)
    assert np.array_equal(small.hidden, large.hidden[:narrow])
    assert np.array_equal(small.signs, large.signs[:narrow])


@pytest.mark.parametrize("d", [1, 5, 65, *(pytest.param(d, marks=pytest.mark.slow) for d in (3, 4, 20))])
def test_the_second_chunk_is_normal_of_its_own_key_and_shape(d):
    """The second chunk of weights is normal, from its own key and shape.

    A network must not depend on how many values the compiled draw makes at once, or on how the draw is compiled for d
    inputs.
    """
    of_hidden, of_signs = jax.random.split(jax.random.fold_in(jax.random.key(9, impl="threefry2x32"), 1))
    hidden, signs = (part[CHUNK:] for part in draw(2 * CHUNK, d, seed=9))
    assert np.array_equal(hidden, jax.jit(jax.random.normal, static_argnums=(1, 2))(of_hidden, (CHUNK, d), np.float64))
    assert np.array_equal(signs, jax.random.rademacher(of_signs, (CHUNK,), np.float64))


def test_seeds_that_agree_in_their_low_or_high_bits_give_different_networks():
    seeds = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**62, 2**63 - 2, 2**63 - 1]
    assert len({draw(4, 2, seed).hidden.tobytes() for seed in seeds}) == len(seeds)


def test_chunks_are_different_and_hidden_weights_do_not_determine_signs():
    hidden, signs = draw(2**16, 3, seed=11)
    assert len(np.unique(hidden[:, 0])) == len(hidden)
    for column in hidden.T:
        assert abs((column * signs).mean()) < 6 / np.sqrt(len(signs))


def test_distribution_and_type():
    hidden, signs = draw(2**15, 4, seed=5, sigma=1.0)
    assert hidden.dtype == signs.dtype == np.float64
    assert stats.kstest(hidden.ravel(), "norm").pvalue > 1e-6
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.mean()) < 6 / np.sqrt(len(signs))
    covariance = np.cov(hidden.T)
    assert np.abs(covariance - np.eye(4)).max() < 6 * np.sqrt(2 / len(hidden))


def test_sigma_scales_the_hidden_weights_only():
    one, quarter = draw(2000, 3, seed=1), draw(2000, 3, seed=1, sigma=0.25)
    assert np.array_equal(quarter.hidden, one.hidden / 4)
    assert np.array_equal(quarter.signs, one.signs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 0}, "width is 0; it must be a positive integer"),
        ({"width": 2.0}, "width is 2.0; it must be a positive integer"),
        ({"d": -1}, "d is -1; it must be a positive integer"),
        ({"block": 0}, "block is 0; it must be a positive integer"),
        ({"sigma": 0.0}, "sigma is 0; it must be a positive finite number"),
        ({"sigma": float("nan")}, "sigma is nan; it must be a positive finite number"),
        ({"seed": -1}, r"seed is -1; it must be an integer from 0 to 2\^63 - 1"),
        ({"seed": 2**63}, f"seed is {2**63}; it must be an integer"),
    ],
)
def test_bad_arguments_are_named_before_anything_is_drawn(arguments, message):
    with pytest.raises(ValueError, match=message):
        blocks(**({"width": 8, "d": 2, "seed": 0} | arguments))


def test_the_network_of_a_seed_is_the_same_where_compiling_is_switched_off():
    with jax.disable_jit():
        uncompiled = draw(1500, 3, 7)
    np.testing.assert_array_equal(uncompiled.hidden, draw(1500, 3, 7).hidden)
