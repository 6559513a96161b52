"""Two ways of averaging models: their outputs (WENS in the paper on IMA), or their weights (FMA in this paper).

The functions evaluate networks, average them and compare their weights; they need no gradients. A network is a
`TwoLayer` or, for any torch module, a `TorchNetwork`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ntkfl.connectivity.network import AnyNetwork, Averageable, combination, shares
from ntkfl.estimate import Estimate


def evaluated_group_barrier(evaluate: Callable[[AnyNetwork], float], networks: Sequence[AnyNetwork]) -> float:
    """evaluate(mean of the networks) less the mean of evaluate(network); a negative value means that averaging helps.

    Args:
        evaluate: the function that gives the mean loss of a network.
        networks: two or more `TorchNetwork`s of one shape. For `TwoLayer` networks there is `group_barrier`, which also
            bounds the rounding.

    Raises:
        ValueError: there are fewer than two networks; they have different shapes; or a value is not finite.
    Source: FedGuCci, Definition 3.6; fedgucci/F14.
    """
    centre, own = _values(evaluate, networks)
    return centre - float(np.mean(own))


def evaluated_group_accuracy_barrier(evaluate: Callable[[AnyNetwork], float], networks: Sequence[AnyNetwork]) -> float:
    """1 - evaluate(mean of the networks) / the mean of evaluate(network), which may be negative.

    Args:
        evaluate: the function that gives the accuracy of a network, from 0 to 1.
        networks: two or more of one shape.

    Raises:
        ValueError: as `evaluated_group_barrier`; or all networks have accuracy 0.
    Source: FedGuCci, Definition 3.6; fedgucci/F14.
    """
    centre, own = _values(evaluate, networks)
    if not np.mean(own) > 0:
        raise ValueError(f"the mean accuracy of the {len(own)} networks is {np.mean(own):g}: the ratio is undefined")
    return 1 - centre / float(np.mean(own))


def _values(evaluate: Callable[[AnyNetwork], float], networks: Sequence[AnyNetwork]) -> tuple[float, list[float]]:
    if len(networks) < 2:
        raise ValueError(f"a group barrier needs at least 2 networks, got {len(networks)}")
    centre, *own = [float(evaluate(network)) for network in (combination(networks), *networks)]
    for name, value in (("their mean", centre), *((f"network {k}", value) for k, value in enumerate(own))):
        if not np.isfinite(value):
            raise ValueError(f"the value of {name} is {value}; every value must be finite")
    return centre, own


def ensemble_outputs(
    networks: Sequence[Averageable], x: Any, weights: Sequence[float] | None = None
) -> Float[np.ndarray, "..."]:
    """The outputs sum_k p_k f(x; w_k) of the weighted ensemble.

    Args:
        networks: networks of one shape, each with `outputs(x)`.
        x: inputs, as the networks take them.
        weights: p_k, one for each network; default all equal.

    Raises:
        ValueError: as `combination`; or the inputs do not fit.
    Source: IMA, section III; averaging/I3.
    """
    chosen = shares(networks, weights)
    return np.sum([p * network.outputs(x) for p, network in zip(chosen, networks, strict=True)], axis=0)


def averaging_gap(
    networks: Sequence[Averageable], x: Any, weights: Sequence[float] | None = None
) -> Float[np.ndarray, "..."]:
    """f_WENS - f_FMA: the mean of the networks' outputs less the output of their mean (Lemma 1 of IMA).

    Args:
        networks: networks of one shape, each with `outputs(x)`.
        x: inputs, as the networks take them.
        weights: p_k, one for each network, with sum 1; default equal.

    Raises:
        ValueError: as `ensemble_outputs`; or the weights do not sum to 1.
    """
    chosen = _checked(networks, weights)
    return ensemble_outputs(networks, x, list(chosen)) - combination(networks, list(chosen)).outputs(x)


def locality(networks: Sequence[Averageable], weights: Sequence[float] | None = None) -> float:
    """Delta = max_k |w_k - sum_j p_j w_j|, where w_k has all parameters of network k as one vector (IMA, Theorem 1).

    Args:
        networks: one or more of one shape.
        weights: p_k, one for each network, with sum 1; default equal.

    Raises:
        ValueError: as `averaging_gap`.
    """
    centre = combination(networks, list(_checked(networks, weights))).vector()
    return max(float(Estimate.exact(network.vector() - centre).norm().value) for network in networks)


def _checked(networks: Sequence[Averageable], weights: Sequence[float] | None) -> Float[np.ndarray, " K"]:
    chosen = shares(networks, weights)
    if abs(chosen.sum() - 1) > 1e-12:
        raise ValueError(f"the weights sum to {chosen.sum():.17g}; they must sum to 1")
    return chosen
