"""Federated training in PyTorch: every method of the papers as four composable seams, batched over clients."""

from ntkfl.training.engine.federation import Federation, State
from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Method
from ntkfl.training.model import Model
from ntkfl.training.runs.training_run import Run, load_run, run

__all__ = ["FederatedData", "Federation", "LocalWork", "Method", "Model", "Run", "State", "load_run", "run"]
