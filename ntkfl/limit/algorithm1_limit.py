"""The kernel regime of Algorithm 1, from checked arguments, and the warning of steps beyond its stability limit."""

import warnings

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ntkfl.double_precision import in_float64
from ntkfl.gram import infinite
from ntkfl.limit.infinite_width import KernelRegime
from ntkfl.limit.regime import Kernel
from ntkfl.memory import require
from ntkfl.problem import Problem, Setup, finite_array, require_magnitudes

MATRICES = 8.5  # (n, n) matrices held until the round is decomposed, measured
GRAM_TOLERANCE = 1e-12  # asymmetry and negative eigenvalues, relative to the largest entry and to the norm


class UnstableSteps(UserWarning):
    """The steps are beyond the stability limit; the message gives the limits."""


def algorithm1_limit(problem: Problem, setup: Setup, gram: ArrayLike | Kernel | None = None) -> KernelRegime:
    """The regime of Algorithm 1 with the checks of `ntkfl.kernel_regime`, without a warning of unstable steps.

    `gram` is a matrix or a kernel, by default H_inf. For a problem `per_output` a kernel is called with the samples and
    may give one output or all of them.
    """
    require_magnitudes(problem, rows=gram is None)
    require("the kernel regime", lambda n: 8 * MATRICES * n * n, n=problem.n)
    if gram is None:
        return KernelRegime(problem, setup, problem.of_outputs(infinite(problem.samples)))
    if callable(gram):
        kernel = in_float64(gram)
        return KernelRegime(
            problem, setup, _checked_gram(problem.of_outputs(kernel(problem.samples, None)), problem), kernel
        )
    return KernelRegime(problem, setup, _checked_gram(gram, problem), kernel=None)


def warn_if_unstable(problem: Problem, setup: Setup, gram: ArrayLike | Kernel | None = None) -> str | None:
    """Warn the caller's caller when the steps pass the stability limit at infinite width (or of `gram`).

    Args:
        problem: data.
        setup: eta_local, eta_global and local_steps.
        gram: H, (n, n); default: H_inf.

    Returns the warning's text, or None if the steps are stable. Raises: as `kernel_regime`. Source: fl-ntk/X.3.
    """
    if gram is None and setup.eta_global <= 1:
        traces = np.bincount(problem.owner, (problem.x**2).sum(axis=1)) / 2  # |H_cc| <= tr H_cc: needs no large H
        if setup.eta_local * traces.max() < 2:
            return None
    message = algorithm1_limit(problem, setup, gram).step_warning
    if message:
        warnings.warn(message, UnstableSteps, stacklevel=3)
    return message


def _checked_gram(gram: ArrayLike, problem: Problem) -> Float[np.ndarray, "n n"]:
    h, n = finite_array("gram", gram), problem.n
    if h.shape != (n, n):
        outputs = h.shape[0] // n if h.ndim == 2 and h.shape[0] == h.shape[1] and h.shape[0] % n == 0 else 1
        labels = f"y of {outputs} columns, one-hot for classes, and then " if problem.y[0].size != outputs else ""
        more = f", or that of {outputs} outputs: give {labels}problem.per_output()" if outputs > 1 else ""
        raise ValueError(f"gram has shape {h.shape}; {n} samples need ({n}, {n}){more}")
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
