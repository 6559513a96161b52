"""Tests of the spectra of fl-ntk/Weyl: an enclosure holds for all matrices whose entries lie within the stated errors.

The enclosures are sharp if the entries have no errors.
"""

import numpy as np
import pytest

from bounds.fl_ntk.initial_kernel import eigenvalues
from ntkfl.estimate import Estimate, Rigour


def symmetric(seed: int, n: int = 5) -> np.ndarray:
    h = np.random.default_rng(seed).standard_normal((n, n))
    return h + h.T


@pytest.mark.parametrize("seed", range(4))
def test_every_eigenvalue_of_every_matrix_within_the_errors_is_enclosed(seed):
    middle, error = symmetric(seed), np.abs(symmetric(seed + 100)) / 10
    spectrum = eigenvalues(Estimate(middle, error))
    for other in range(20):
        shift = np.triu(np.random.default_rng([seed, other]).uniform(-1, 1, middle.shape))
        values = np.linalg.eigvalsh(middle + error * (shift + np.triu(shift, 1).T))
        assert (spectrum.lo <= values).all() and (values <= spectrum.hi).all()


def test_an_exact_matrix_has_a_sharp_spectrum_with_multiplicities():
    spectrum = eigenvalues(Estimate.exact(np.diag([2.0, -1.0, 2.0, 0.5])))
    assert spectrum.error.max() < 1e-14
    assert np.allclose(spectrum.value, [-1, 0.5, 2, 2], atol=1e-14)


def test_eigenvalues_are_trusted_no_further_than_the_entries():
    assert eigenvalues(Estimate.exact(np.eye(2))).rigour is Rigour.ENCLOSED
    assert eigenvalues(Estimate(np.eye(2), 1e-9, "guessed", Rigour.MEASURED)).rigour is Rigour.MEASURED
