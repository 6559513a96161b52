"""All eigenvalues of a symmetric matrix that is known with its errors."""

from dataclasses import replace

from ntkfl.balls import ball_matrix, enclosure, precision, symmetric_eigenvalues
from ntkfl.estimate import Estimate


def eigenvalues(h: Estimate) -> Estimate:
    """Of a symmetric matrix, (n, n), in ascending order, (n,): proved in balls, trusted no further than its entries."""
    with precision():
        spectrum = enclosure(symmetric_eigenvalues(ball_matrix(h.value, h.error)))
    return replace(spectrum, rigour=max(spectrum.rigour, h.rigour))
