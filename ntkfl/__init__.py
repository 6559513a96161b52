"""Federated training of wide two-layer ReLU networks, their Gram matrices, and their exact dynamics at infinite
width.
"""

import sys
from typing import TYPE_CHECKING

from ntkfl.imports import MovedModules, lazy_names
from ntkfl.version import VERSION as __version__

if TYPE_CHECKING:
    from ntkfl import data as data, gram as gram, networks as networks
    from ntkfl.algorithm1.simulation import simulate as simulate
    from ntkfl.any_order import (
        AnyOrderCertificate as AnyOrderCertificate,
        MethodCertificate as MethodCertificate,
        certify_any_order as certify_any_order,
        certify_method as certify_method,
    )
    from ntkfl.estimate import Estimate as Estimate
    from ntkfl.exact_dynamics import (
        kernel_regime as kernel_regime,
        random_rounds as random_rounds,
        sampled_rounds as sampled_rounds,
    )
    from ntkfl.fastest_method import fastest as fastest
    from ntkfl.networks import network as network, simulate_network as simulate_network
    from ntkfl.problem import Problem as Problem, Setup as Setup, Weights as Weights
    from ntkfl.smooth_networks import (
        NetworkCertificate as NetworkCertificate,
        RoundsCertificate as RoundsCertificate,
        certify_network as certify_network,
        certify_rounds as certify_rounds,
    )
    from ntkfl.trajectory import Trajectory as Trajectory

__getattr__, __dir__ = lazy_names(__name__, __file__)
__all__ = [*__dir__(), "__version__"]

sys.meta_path.append(
    MovedModules({"ntkfl.ranges": "ntkfl.messages", "ntkfl.training.models.request": "ntkfl.training.model"})
)
