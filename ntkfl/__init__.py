"""Federated training of wide two-layer ReLU networks, their Gram matrices and their exact infinite-width dynamics."""

import jax

jax.config.update("jax_enable_x64", True)  # float64 in everything that feeds a verdict

from ntkfl import data, gram, networks  # noqa: E402
from ntkfl.algorithm1.simulation import simulate  # noqa: E402
from ntkfl.any_order import AnyOrderCertificate, certify_any_order  # noqa: E402
from ntkfl.estimate import Estimate  # noqa: E402
from ntkfl.exact_dynamics import kernel_regime, random_rounds  # noqa: E402
from ntkfl.networks import network, simulate_network  # noqa: E402
from ntkfl.problem import Problem, Setup, Weights  # noqa: E402
from ntkfl.trajectory import Trajectory  # noqa: E402
from ntkfl.version import VERSION as __version__  # noqa: E402

__all__ = [
    "AnyOrderCertificate",
    "Estimate",
    "Problem",
    "Setup",
    "Trajectory",
    "Weights",
    "__version__",
    "certify_any_order",
    "data",
    "gram",
    "kernel_regime",
    "network",
    "networks",
    "random_rounds",
    "simulate",
    "simulate_network",
]
