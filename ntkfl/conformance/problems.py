"""Small problems in float64: regressions, a two-layer network, a layer with LoRA; clients of unequal size."""

from dataclasses import dataclass

import numpy as np

SIZES = (5, 3, 9, 4, 7)
CLASSES = 3
Samples = tuple[np.ndarray, np.ndarray, np.ndarray]  # x, y, the client of each
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "line": {"w": (3,)},
    "logistic": {"head.weight": (CLASSES, 4), "head.bias": (CLASSES,)},
    "lora": {"base.weight": (CLASSES, 3), "lora_A": (2, 3), "lora_B": (CLASSES, 2)},
    "network": {
        "body.0.weight": (5, 4),
        "body.0.bias": (5,),
        "head.weight": (CLASSES, 5),
        "head.bias": (CLASSES,),
    },
}


@dataclass(frozen=True)
class Problem:
    """A model of `SHAPES` and the samples of clients, drawn from a seed."""

    model: str
    sizes: tuple[int, ...] = SIZES  # how many samples each client has
    copies: int = 0  # clients that have copies of the first client's samples
    lacking: bool = False  # whether clients lack some classes, such as the class of the first sample
    rank: int = 2  # rank of LoRA's factors
    seed: int = 0

    def samples(self) -> Samples:
        """The samples, in an order in which two samples of one client are not neighbours unless they are copies."""
        rng = np.random.default_rng(self.seed)
        owner = rng.permutation(np.repeat(np.arange(len(self.sizes)), self.sizes))
        features = SHAPES[self.model][next(iter(SHAPES[self.model]))][-1]
        x = rng.standard_normal((len(owner), features))
        if self.model == "line":
            optima = 2 + rng.standard_normal((len(self.sizes), features))
            y = (x * optima[owner]).sum(axis=1) + 0.1 * rng.standard_normal(len(owner))
        else:
            y = rng.integers(0, CLASSES, len(owner))
            if self.lacking:
                y = np.where((y == owner % CLASSES) & (owner % 2 == 0), (y + 1) % CLASSES, y)
            x = x + 0.5 * y[:, None]
        if self.copies:
            own = owner == 0
            x, y = np.tile(x[own], (self.copies, 1)), np.tile(y[own], self.copies)
            owner = np.repeat(np.arange(self.copies), own.sum())
        return x, y, owner

    def start(self) -> dict[str, np.ndarray]:
        """The first model: Gaussian entries over the root of a tensor's input width; LoRA's B is 0."""
        rng = np.random.default_rng([self.seed, 1])
        adapted = {"lora_A": (self.rank, 3), "lora_B": (CLASSES, self.rank)} if self.model == "lora" else {}
        return {
            name: rng.standard_normal(shape) / np.sqrt(shape[-1] if len(shape) > 1 else 4) * (name != "lora_B")
            for name, shape in (SHAPES[self.model] | adapted).items()
        }
