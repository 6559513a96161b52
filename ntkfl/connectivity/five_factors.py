"""The squared error of averaged models, split into the factors of IMA's Theorem 1, with the exact remainder."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.problem import finite_array, number_array


@dataclass(frozen=True)
class ErrorFactors:
    """E(y - f_FMA)^2 = bias + variance + covariance + remainder, means over draws of the models and over samples.

    Args:
        train_bias: mean of the square of the training part of the bias.
        heterogeneity_bias: mean of the square of the heterogeneity part of the bias.
        cross: twice the mean of the product of the two parts; bias is the sum of these three fields.
        variance: sum_k p_k^2 Var f_k.
        covariance: sum over k != k' of p_k p_k' Cov(f_k, f_k').
        remainder: E[2 (f_WENS - y)(f_FMA - f_WENS) + (f_FMA - f_WENS)^2], of either sign; of order E[locality^2].
        ensemble_error: E(y - f_WENS)^2, computed directly.
        averaged_error: E(y - f_FMA)^2, computed directly.
    """

    train_bias: float
    heterogeneity_bias: float
    cross: float
    variance: float
    covariance: float
    remainder: float
    ensemble_error: float
    averaged_error: float

    @property
    def bias(self) -> float:
        """Mean over samples of (y - E f_WENS)^2."""
        return self.train_bias + self.heterogeneity_bias + self.cross


def error_factors(
    outputs: Float[np.ndarray, "M K n"],
    averaged: Float[np.ndarray, "M n"],
    y: Float[np.ndarray, " n"],
    owner: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " K"],
) -> ErrorFactors:
    """The factors from M joint draws of K clients' models, moments with 1/M, so that the identity is exact.

    Args:
        outputs: f_k of every draw on every sample.
        averaged: f_FMA, the outputs at the draw's mean weights.
        y: the labels.
        owner: the client whose training set has the sample, or -1. A client's TrainBias is over its own samples, its
            HeterBias over all other samples.
        weights: p_k.

    Raises:
        ValueError: shapes that do not fit, weights that do not sum to 1, an entry that is not finite, or an owner
            that is no client.
    Source: IMA, Theorem 1 (13)-(14) and Eq (11); averaging/I4, I5. The draws must be those of the joint law of the
    round: under a product law every covariance is zero (I6).
    """
    outputs, averaged, y, owner, weights = _checked(outputs, averaged, y, owner, weights)
    mean = outputs.mean(axis=0)  # (K, n)
    misses = weights[:, None] * (y - mean)
    own = np.arange(len(weights))[:, None] == owner
    train, others = (misses * own).sum(axis=0), (misses * ~own).sum(axis=0)
    weighted = weights[:, None] * (outputs - mean)
    variance = (weighted**2).mean(axis=0).sum(axis=0)
    joint = (weighted.sum(axis=1) ** 2).mean(axis=0)
    ensemble = np.einsum("k,mkn->mn", weights, outputs)
    gap = averaged - ensemble
    return ErrorFactors(
        train_bias=float(np.mean(train**2)),
        heterogeneity_bias=float(np.mean(others**2)),
        cross=float(2 * np.mean(train * others)),
        variance=float(variance.mean()),
        covariance=float(np.mean(joint - variance)),
        remainder=float(np.mean(2 * (ensemble - y) * gap + gap**2)),
        ensemble_error=float(np.mean((ensemble - y) ** 2)),
        averaged_error=float(np.mean((averaged - y) ** 2)),
    )


def _checked(outputs, averaged, y, owner, weights) -> tuple[np.ndarray, ...]:
    given = {"outputs": outputs, "averaged": averaged, "y": y, "weights": weights}
    outputs, averaged, y, weights = (finite_array(name, part) for name, part in given.items())
    owner = number_array("owner", owner)
    if outputs.ndim != 3 or 0 in outputs.shape:
        raise ValueError(f"the outputs have shape {outputs.shape}; they must be (draws, clients, samples)")
    draws, clients, samples = outputs.shape
    wanted = {"averaged": (averaged, (draws, samples)), "y": (y, (samples,)), "owner": (owner, (samples,))}
    for name, (array, shape) in (wanted | {"weights": (weights, (clients,))}).items():
        if array.shape != shape:
            raise ValueError(
                f"{name} has shape {array.shape}; with outputs of shape {outputs.shape} it must be {shape}"
            )
    if abs(weights.sum() - 1) > 1e-12:
        raise ValueError(f"the weights sum to {weights.sum():.17g}; they must sum to 1")
    if not np.isin(owner, np.arange(-1, clients)).all():
        wrong = owner[~np.isin(owner, np.arange(-1, clients))][0]
        raise ValueError(f"owner {wrong} is no client; it must be 0..{clients - 1}, or -1 for nobody's sample")
    return outputs, averaged, y, owner, weights
