"""Do fewer clients converge faster, and do more local steps explain it?"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from experiments.miniatures.federated import DIGITS, IMAGES, settings, trained
from experiments.miniatures.miniature import PAPER, Keys, Miniature, Quantity, Setting

COMMON = DIGITS | {
    "method": "fedavg",
    "rounds": 40,
    "batch_size": 32,
    "rate": 0.03,
    "momentum": 0.0,
    "train_loss": True,
}
PAPER_KEYS = COMMON | {"data": "cifar-10", "model": "resnet56-gn", "rounds": 160, "batch_size": 128}
CLIENTS = 2, 5, 10, 20
PASSES = 2
STEPS = 10  # with 10 clients, the number of steps in 2 passes of a client
LOSS = "training loss"


def measure(keys: Keys, seed: int) -> Mapping[str, float]:
    """The logarithm of the training loss after all rounds, and the local steps of a client in the last round."""
    done = trained(keys, seed)
    steps = done.metrics["local_steps"][-1] / done.metrics["cohort"][-1]
    return {LOSS: float(np.log10(done.metrics["train_loss"][-1])), "local steps": float(steps)}


def _settings(common: Keys, clients: Sequence[int], passes: Sequence[int], steps: int) -> Iterator[Setting]:
    works: list[tuple[Keys, str]] = [({"epochs": number}, f"{number} passes") for number in passes]
    for partition, spread in (("iid", ""), ("dirichlet:0.5", ", Dirichlet 0.5")):
        for work, what in (*works, ({"local_steps": steps}, f"{steps} steps")):
            yield from settings(
                {**common, "partition": partition, **work},
                {f"{count} clients": {"clients": count} for count in clients},
                f"{clients[0]} clients",
                named=f"{{}}, {what}{spread}",
                claim={LOSS: "higher"} if "epochs" in work else {},
            )


MINIATURE = Miniature(
    name="clients",
    question="Do fewer clients converge faster, and is it because each then takes more steps a round?",
    source="FL-NTK, Figure 1 (curves only), and the control with equal local steps that it lacks",
    scale={
        **IMAGES,
        "model": ("ResNet56", "MLP 64-64-64-10"),
        "clients": ("10, 50, 100", "2, 5, 10, 20"),
        "rounds": ("160", "40"),
        "batch": ("128", "32"),
        "passes": ("2 and 5", "2"),
    },
    settings=tuple(_settings(COMMON, CLIENTS, (PASSES,), STEPS)),
    quantities=(
        Quantity(LOSS, "log10 of nats per sample, after the last round"),
        Quantity("local steps", "of a client in the last round"),
    ),
    measure=measure,
    quick={"rounds": 2, "samples": 200},
).also(
    PAPER,
    tuple(_settings(PAPER_KEYS, (10, 50, 100), (2, 5), 80)),  # with 10 clients, 2 passes of a client are 80 steps
    {"model": "ResNet56 with GroupNorm"},
    caveat="The training loss is measured on all images after every round; momentum is not stated, and is 0.",
)
