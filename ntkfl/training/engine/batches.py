"""The batches of a plan, gathered from the data one step at a time."""

import torch

from ntkfl.training.engine.local_plan import LocalPlan
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.method import Batch


class Batches:
    """The batches of some clients in one round, one row a client; which samples they have goes to the device once.

    Args:
        data: where the samples are. dtype: of what marks the real ones.
        alone: whether the plan is of one client. It needs no places filled up to the longest batch, which would be
            computed for nothing.
    """

    def __init__(self, data: FederatedData, plan: LocalPlan, dtype: torch.dtype, alone: bool) -> None:
        self.data, device = data, data.x.device
        self.index = torch.as_tensor(plan.index, device=device)
        self.real = torch.as_tensor(plan.real, device=device, dtype=dtype)
        _, steps, longest = plan.real.shape
        self.places = plan.real[0].sum(axis=1).tolist() if alone else [longest] * steps

    def at(self, step: int) -> Batch:
        """That of step 0, 1, ..."""
        places = slice(self.places[step])
        index = self.index[:, step, places]
        return Batch(self.data.x[index], self.data.y[index], self.real[:, step, places])
