"""Federated training of wide two-layer ReLU networks, their Gram matrices and their exact infinite-width dynamics."""

from ntkfl import data, gram, networks
from ntkfl.algorithm1.simulation import simulate
from ntkfl.any_order import AnyOrderCertificate, certify_any_order
from ntkfl.estimate import Estimate
from ntkfl.exact_dynamics import kernel_regime, random_rounds
from ntkfl.networks import network, simulate_network
from ntkfl.problem import Problem, Setup, Weights
from ntkfl.smooth_networks import NetworkCertificate, certify_network
from ntkfl.trajectory import Trajectory
from ntkfl.version import VERSION as __version__

__all__ = [
    "AnyOrderCertificate",
    "Estimate",
    "NetworkCertificate",
    "Problem",
    "Setup",
    "Trajectory",
    "Weights",
    "__version__",
    "certify_any_order",
    "certify_network",
    "data",
    "gram",
    "kernel_regime",
    "network",
    "networks",
    "random_rounds",
    "simulate",
    "simulate_network",
]
