"""What `ntkfl train` shows of each round: the losses and accuracies that were measured."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from experiments.console.progress_bar import ProgressBar

if TYPE_CHECKING:
    from ntkfl.training.metrics import Row


class RunProgress(ProgressBar):
    """A context, called with each new row and the number of rounds."""

    def __init__(self) -> None:
        super().__init__("rounds")

    def __call__(self, row: Row, rounds: int) -> None:
        self.show(row.round, rounds, described(row))


def described(row: Row) -> str:
    """The losses and accuracies of a row, those that were measured."""
    values = {
        "test loss": f"{row.test_loss:.4g}",
        "test accuracy": f"{row.test_accuracy:.2%}",
        "train loss": f"{row.train_loss:.4g}",
        "client accuracy": f"{row.client_accuracy:.2%}",
        "personal accuracy": f"{row.personal_accuracy:.2%}",
    }
    known = [f"{name} {text}" for name, text in values.items() if not isnan(getattr(row, name.replace(" ", "_")))]
    return ", ".join(known) or "no test set, so nothing is measured"
