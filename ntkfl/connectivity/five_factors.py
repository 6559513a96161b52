"""The squared error of averaged models as a sum of the factors of IMA's Theorem 1 and an exact remainder."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.problem import finite_array, number_array


@dataclass(frozen=True)
class ErrorFactors:
    """The terms of E(y - f_FMA)^2 = bias + variance + covariance + remainder.

    E, Var and Cov are over draws of the models; every term is the mean over samples. f_k is the output of client k's
    model, f_WENS = sum_k p_k f_k, and f_FMA is the output of the averaged model.

    Args:
        train_bias: mean of the square of the bias's training part.
        heterogeneity_bias: mean of the square of the bias's heterogeneity part.
        cross: twice the mean of the product of the two parts; `bias` is train_bias + heterogeneity_bias + cross.
        variance: sum_k p_k^2 Var f_k.
        covariance: sum over k != k' of p_k p_k' Cov(f_k, f_k').
        remainder: E[2 (f_WENS - y)(f_FMA - f_WENS) + (f_FMA - f_WENS)^2], which may have either sign and is of order E
            Delta^2. Delta is the largest distance of a client's weights from the mean model, see `ensembles.locality`.
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
        """The mean over samples of (y - E f_WENS)^2."""
        return self.train_bias + self.heterogeneity_bias + self.cross


def error_factors(
    outputs: Float[np.ndarray, "M K n"],
    averaged: Float[np.ndarray, "M n"],
    y: Float[np.ndarray, " n"],
    owner: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " K"],
) -> ErrorFactors:
    """The factors, estimated from M joint draws of the models of K clients.

    Moments are means over the draws with the factor 1/M, so that the identity holds exactly.

    Args:
        outputs: the outputs f_k of every draw on every sample.
        averaged: f_FMA, the outputs of the averaged model of every draw.
        y: the labels.
        owner: the client whose training set has the sample, or -1. The training part of a client's bias is over its own
            samples, and the heterogeneity part over all other samples.
        weights: p_k.

    Raises:
        ValueError: shapes do not fit; the weights do not sum to 1; an entry is not finite; or an owner is no client.
    Source: IMA, Theorem 1 (13)-(14) and Eq (11); averaging/I4, I5. In each draw the models of all clients must be drawn
    together, from the joint law of a round. If the clients' models were drawn independently, every covariance would be
    zero (averaging/I6).
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
