"""Models that are trained alone on the same data from different starts.

They are trained with or without a connectivity loss to an anchor, which is another trained model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from experiments.miniatures.miniature import Keys
from ntkfl.training import FederatedData, Federation, LocalWork, Model
from ntkfl.training.datasets import load
from ntkfl.training.methods import fed_gucci
from ntkfl.training.methods.local import Alone
from ntkfl.training.models import build
from ntkfl.training.objectives import CrossEntropy
from ntkfl.training.optimizers import SGD
from ntkfl.training.schedules import Exponential
from ntkfl.training.tree import Params, stacked, tree_map

ANCHOR_SEEDS = 10_000  # added to a seed, so that the anchor's batches differ from the models'


@dataclass(frozen=True, eq=False)
class Solo:
    """How models are trained alone."""

    data: FederatedData  # the data of one client; every model is trained as this client
    model: Model
    # the four fields below are settings of the training of each model
    epochs: int
    batch_size: int = 32
    rate: float = 0.05
    momentum: float = 0.9

    @classmethod
    def of(cls, keys: Keys, seed: int) -> Solo:
        """The training, in float64, of the model `keys["model"]` on the data `keys["data"]`."""
        given = {key: keys[key] for key in ("samples", "test") if key in keys}
        data = load(keys["data"], clients=1, seed=seed, dtype=torch.float64, **given)
        return cls(data, build(keys["model"], data, dtype=torch.float64, device="cpu", seed=seed), keys["epochs"])

    def starts(self, count: int, seed: int) -> Params:
        """Initial models, one in each row.

        None of them is the start of the anchor.
        """
        seeds = np.random.SeedSequence((seed, 1)).generate_state(count)
        return stacked([self.model.initial(int(start)) for start in seeds])

    def anchor(self, epochs: int, seed: int) -> Params:
        """The anchor, a further model that is trained for `epochs` epochs without a connectivity loss."""
        start = self.model.initial(int(np.random.SeedSequence((seed, 2)).generate_state(1)[0]))
        if not epochs:
            return start
        lifted = tree_map(lambda w: w[None], start)
        return tree_map(lambda w: w[0], replace(self, epochs=epochs).trained(lifted, start, 0.0, ANCHOR_SEEDS + seed))

    def trained(self, starts: Params, anchor: Params, beta: float, seed: int) -> Params:
        """The models after training from `starts`, with beta times the connectivity loss to the anchor.

        The rows are in the order of `starts`. Every model takes the samples in an order of its own, which is the same
        for every beta.
        """
        count = len(next(iter(starts.values())))
        data = replace(
            self.data,
            x=self.data.x.repeat(count, *(1,) * (self.data.x.ndim - 1)),
            y=self.data.y.repeat(count),
            owner=np.repeat(np.arange(count), len(self.data.x)),
            clients=count,
        )
        federation = Federation(
            self.model,
            data,
            replace(
                fed_gucci.method(CrossEntropy(), beta=beta),
                local=Alone(),
                server=fed_gucci.Anchored(anchor),
                personal=True,
            ),
            Exponential(self.rate),
            SGD(self.momentum),
            LocalWork(self.epochs, self.batch_size),
            seed=seed,
            at_once=count,
        )
        begun = federation.start(anchor)
        begun = replace(begun, clients={"rule": {"model": starts}}, has_trained=torch.ones(count, dtype=torch.bool))
        ends = federation.round(begun, keep_ends=True).ends
        assert ends is not None  # `keep_ends` demands the models at the ends of the clients' rounds
        return ends

    def scores(self, stacked: Params) -> tuple[Tensor, Tensor]:
        """Mean loss and accuracy of each model on the test samples, each (rows,)."""
        x, y = self.data.x_test, self.data.y_test
        assert x is not None and y is not None  # image sets have test samples
        outputs = vmap(self.model.outputs, in_dims=(0, None))(stacked, x)
        losses = torch.nn.functional.cross_entropy(
            outputs.transpose(1, 2), y.expand(len(outputs), -1), reduction="none"
        )
        return losses.mean(1), (outputs.argmax(2) == y).double().mean(1)
