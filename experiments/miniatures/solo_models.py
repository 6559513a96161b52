"""Models trained alone on the same data from different starts, with or without a connectivity loss to an anchor."""

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
    """The training of models alone."""

    data: FederatedData  # data of one client; every model trains as this client
    model: Model
    # epochs, batch_size, rate, momentum: those of the training
    epochs: int
    batch_size: int = 32
    rate: float = 0.05
    momentum: float = 0.9

    @classmethod
    def of(cls, keys: Keys, seed: int) -> Solo:
        """The training with the data and the model that the keys name, in float64."""
        given = {key: keys[key] for key in ("samples", "test") if key in keys}
        data = load(keys["data"], clients=1, seed=seed, dtype=torch.float64, **given)
        return cls(data, build(keys["model"], data, dtype=torch.float64, device="cpu", seed=seed), keys["epochs"])

    def starts(self, count: int, seed: int) -> Params:
        """Initial models, one in each row; the anchor has another start."""
        seeds = np.random.SeedSequence((seed, 1)).generate_state(count)
        return stacked([self.model.initial(int(start)) for start in seeds])

    def anchor(self, epochs: int, seed: int) -> Params:
        """A further model, trained for `epochs` epochs."""
        start = self.model.initial(int(np.random.SeedSequence((seed, 2)).generate_state(1)[0]))
        if not epochs:
            return start
        lifted = tree_map(lambda w: w[None], start)
        return tree_map(lambda w: w[0], replace(self, epochs=epochs).trained(lifted, start, 0.0, ANCHOR_SEEDS + seed))

    def trained(self, starts: Params, anchor: Params, beta: float, seed: int) -> Params:
        """The models, rows as in `starts`, after training with beta times the connectivity loss to the anchor.

        Every model has its own order of the samples, the same for every beta.
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
        begun = replace(begun, clients={"rule": {"model": starts}}, seen=torch.ones(count, dtype=torch.bool))
        ends = federation.round(begun, keep_ends=True).ends
        assert ends is not None  # keep_ends asks for them
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
