"""Rounds of FedAvg, FedProx, SCAFFOLD and FedDyn as their papers write them, in any arithmetic."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

WITH_MEMORY: dict[str, dict[str, Any]] = {
    "fedavgm": {"momentum": 0.6},
    "fedavgm, Nesterov": {"momentum": 0.6, "nesterov": True, "server_rate": 0.7},
    "fedprox": {"mu": 0.3},
    "scaffold": {},
    "scaffold, option I": {"option": "I"},
    "feddyn": {"alpha": 0.8},
}
METHODS: dict[str, dict[str, Any]] = {"fl-ntk": {"server_rate": 1.3}, "fedavg": {}, **WITH_MEMORY}


def named(kind: str) -> tuple[str, dict[str, Any]]:
    """The engine's name of a method, and its options."""
    return kind.split(",")[0], METHODS[kind]


class MethodSteps:
    """A federated method on a network. A subclass defines `gradient`, and `record`, which gets every model."""

    number: Callable[[float], Any] = float  # converts a float to the arithmetic of the models
    at: Any  # the server's model
    server: Any  # the vector that the server keeps from round to round
    own: list[Any]  # the vectors that the clients keep from round to round

    def __init__(self, kind: str, clients: Sequence[np.ndarray], eta: float, steps: int) -> None:
        self.name, self.options = named(kind)
        self.clients, self.eta, self.steps = clients, self.number(eta), steps

    def gradient(self, at: Any, members: np.ndarray) -> Any:
        """The gradient of half the sum of squares over these samples."""
        raise NotImplementedError

    def record(self, at: Any) -> None:
        """Called with every model of a client after each step, and with the server's model after each round."""
        raise NotImplementedError

    def option(self, name: str) -> Any:
        """A numeric option of the method."""
        return self.number(self.options[name])

    def round(self) -> None:
        """One round of all clients and the server."""
        ends = [self._client(c, members) for c, members in enumerate(self.clients)]
        moved, n, nothing = [end - self.at for end in ends], self.number(len(self.clients)), 0 * self.at
        rate = self.number(self.options.get("server_rate", 1.0))
        by_size, samples = self.name in ("fedavg", "fedavgm", "fedprox"), sum(map(len, self.clients))
        weight = [self.number(len(m)) / samples if by_size else 1 / n for m in self.clients]
        mean = sum((p * d for p, d in zip(weight, moved, strict=True)), nothing)
        if self.name == "fedavgm":
            momentum = self.option("momentum")
            self.server = momentum * self.server + mean
            self.at = self.at + rate * (mean + momentum * self.server if "nesterov" in self.options else self.server)
        elif self.name == "scaffold":
            fresh = [own - self.server - d / (self.steps * self.eta) for own, d in zip(self.own, moved, strict=True)]
            if self.options.get("option") == "I":
                fresh = [self.gradient(self.at, members) for members in self.clients]
            self.own, self.server = fresh, sum(fresh, nothing) / n
            self.at = self.at + rate * mean
        elif self.name == "feddyn":
            alpha = self.option("alpha")
            self.own = [own - alpha * d for own, d in zip(self.own, moved, strict=True)]
            # the h of the training engine is the mean of the clients' vectors, with the same sign
            self.at = (sum(ends, nothing) - sum(self.own, nothing) / alpha) / n
        else:
            self.at = self.at + rate * mean
        self.record(self.at)

    def _client(self, c: int, members: np.ndarray) -> Any:
        at = self.at
        for _ in range(self.steps):
            step = self.gradient(at, members)
            if self.name == "fedprox":
                step = step + self.option("mu") * (at - self.at)
            elif self.name == "scaffold":
                step = step - self.own[c] + self.server
            elif self.name == "feddyn":
                step = step + self.option("alpha") * (at - self.at) - self.own[c]
            at = at - self.eta * step
            self.record(at)
        return at
