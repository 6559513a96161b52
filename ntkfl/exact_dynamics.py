"""The kernel regime of Algorithm 1: exact dynamics for the infinite-width or any other Gram matrix, and step limits."""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ntkfl.gram import infinite
from ntkfl.infinite_width import KernelRegime, StepLimits
from ntkfl.problem import Problem, Setup

__all__ = ["KernelRegime", "StepLimits", "kernel_regime", "warn_if_unstable"]

GRAM_TOLERANCE = 1e-12  # asymmetry and negative eigenvalues, relative to the largest entry and to the norm


def kernel_regime(problem: Problem, setup: Setup, gram: ArrayLike | None = None) -> KernelRegime:
    """The exact dynamics of Algorithm 1 at infinite width, or in the kernel regime of any other Gram matrix.

    Warns (UserWarning, with the limits) when the steps are beyond the stability limit.

    Args:
        problem: data; labels may have several outputs. setup: eta_local, eta_global, local_steps and rounds are used.
        gram: H, (n, n), e.g. a finite network's H(0) or a deep kernel. Default: `ntkfl.gram.infinite(problem.x)`.

    Raises:
        ValueError: a Gram matrix of the wrong size, not finite, not symmetric or not positive semi-definite, to 1e-12
            of its largest entry and its norm; below that the asymmetry is averaged out.
    """
    regime = _regime(problem, setup, gram)
    if regime.step_warning:
        warnings.warn(regime.step_warning, stacklevel=2)
    return regime


def warn_if_unstable(problem: Problem, setup: Setup, gram: ArrayLike | None = None) -> str | None:
    """Warn the caller's caller when the steps pass the stability limit at infinite width (or of `gram`).

    Returns the warning's text, None where there is nothing to warn of. Raises: as `kernel_regime`. Source: ledger X.3.
    """
    if gram is None and setup.eta_global <= 1:
        traces = np.bincount(problem.owner, (problem.x**2).sum(axis=1)) / 2  # |H_cc| <= tr H_cc: spares a large H
        if setup.eta_local * traces.max() < 2:
            return None
    message = _regime(problem, setup, gram).step_warning
    if message:
        warnings.warn(message, stacklevel=3)
    return message


def _regime(problem: Problem, setup: Setup, gram: ArrayLike | None) -> KernelRegime:
    if gram is None:
        return KernelRegime(problem, setup, infinite(problem.x))
    return KernelRegime(problem, setup, _checked_gram(gram, problem.n), own_gram=True)


def _checked_gram(gram: ArrayLike, n: int) -> Float[np.ndarray, "n n"]:
    h = np.asarray(gram, float)
    if h.shape != (n, n):
        raise ValueError(f"gram has shape {h.shape}; {n} samples need ({n}, {n})")
    if not np.isfinite(h).all():
        i, j = np.argwhere(~np.isfinite(h))[0]
        raise ValueError(f"gram[{i}, {j}] is {h[i, j]}; every entry must be finite")
    asymmetry, largest = np.abs(h - h.T).max(), np.abs(h).max()
    if asymmetry > GRAM_TOLERANCE * largest:
        raise ValueError(
            f"gram is not symmetric: entries differ from their mirror images by up to {asymmetry:.3g}, the largest "
            f"entry being {largest:.3g}; the kernel regime needs H = H^T"
        )
    h = (h + h.T) / 2
    eigenvalues = np.linalg.eigvalsh(h)
    if eigenvalues[0] < -GRAM_TOLERANCE * np.abs(eigenvalues).max():
        raise ValueError(
            f"gram has the eigenvalue {eigenvalues[0]:.6g}, the largest being {eigenvalues[-1]:.6g}; "
            "a Gram matrix is positive semi-definite"
        )
    return h
