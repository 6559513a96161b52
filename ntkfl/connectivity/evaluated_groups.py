"""Group barriers of networks that can only be evaluated: without a grid, and without a bound on the rounding."""

from collections.abc import Callable, Sequence

import numpy as np

from ntkfl.connectivity.network import AnyNetwork, combination


def evaluated_group_barrier(evaluate: Callable[[AnyNetwork], float], networks: Sequence[AnyNetwork]) -> float:
    """evaluate(mean of the networks) - mean of what it gives for them; negative where averaging helps.

    Args:
        evaluate: the mean loss of a network.
        networks: `TorchNetwork` of any module; `group_barrier` has `TwoLayer` ones with their rounding.

    Raises:
        ValueError: fewer than two networks, different shapes, or a value that is not finite.
    Source: FedGuCci, Definition 3.6.
    """
    centre, own = _values(evaluate, networks)
    return centre - float(np.mean(own))


def evaluated_group_accuracy_barrier(evaluate: Callable[[AnyNetwork], float], networks: Sequence[AnyNetwork]) -> float:
    """1 - evaluate(mean of the networks) / mean of what it gives for them; may be negative.

    Args:
        evaluate: the accuracy of a network, from 0 to 1.
        networks: two or more of one shape.

    Raises:
        ValueError: as `evaluated_group_barrier`; an accuracy of 0 of all networks.
    Source: FedGuCci, Definition 3.6.
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
