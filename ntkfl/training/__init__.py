"""Federated training in PyTorch. Every method is composed of four parts, and many clients train in one batched call."""

from typing import TYPE_CHECKING

from ntkfl.imports import lazy_names

if TYPE_CHECKING:
    from ntkfl.training.engine.federation import Federation as Federation, State as State
    from ntkfl.training.engine.local_plan import LocalWork as LocalWork
    from ntkfl.training.federated_data import FederatedData as FederatedData
    from ntkfl.training.method import LocalRule as LocalRule, Method as Method
    from ntkfl.training.model import Model as Model
    from ntkfl.training.models.layers import Residual as Residual
    from ntkfl.training.models.two_layer import to_networks as to_networks
    from ntkfl.training.runs.training_run import Run as Run, load_run as load_run, run as run
    from ntkfl.training.tree import tree_map as tree_map

__getattr__, __dir__ = lazy_names(__name__, __file__)
__all__ = __dir__()
