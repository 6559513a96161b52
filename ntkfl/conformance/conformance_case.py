"""A case of the conformance kit, as an adapter gets it.

This file needs only numpy, since adapters run in other interpreters.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FORMAT = "ntkfl conformance case 1"
DOCUMENT, ARRAYS = "case.json", "case.npz"


class Batch(NamedTuple):
    """One local step: its samples x (b, d) and y (b,), its uniform random numbers, and whether a pass ends with it."""

    x: np.ndarray
    y: np.ndarray
    draws: tuple[float, ...]
    ends_pass: bool


class ConformanceCase:
    """A federated problem, a method with its options, and the samples on which each client trains in every round.

    Args:
        document: the content of `case.json` (`ntkfl.conformance.kit.SCHEMA`).
        arrays: the contents of `case.npz`. These are x (n, d); y (n,); owner (n,), which is the client of each sample;
            start/NAME for every tensor of the model before training; and, if the method adds noise, standard normal
            numbers noise (rounds, P).

    `start` and the results of `flat` are vectors (P,), which have the entries of the tensors one after the other.

    Raises:
        ValueError: the document has another format.
    """

    def __init__(self, document: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        if document.get("format") != FORMAT:
            raise ValueError(f"the case's format is {document.get('format')!r}; it must be {FORMAT!r}")
        self.document, self.arrays = document, arrays
        self.name, self.method, self.options = document["name"], document["method"], document["options"]
        self.model, self.loss = document["model"], document["loss"]
        local = document["local"]
        self.momentum, self.weight_decay, self.clip = local["momentum"], local["weight_decay"], local["clip"]
        self.x, self.y, owner = arrays["x"], arrays["y"], arrays["owner"]
        self.noise = arrays.get("noise", np.zeros((len(document["rounds"]), 0)))
        self.population = document["clients"]
        self.members = [np.flatnonzero(owner == client) for client in range(self.population)]
        self.sizes = [len(own) for own in self.members]
        self.shapes = {name: arrays[f"start/{name}"].shape for name in document["tensors"]}
        self.start = np.concatenate([arrays[f"start/{name}"].ravel() for name in self.shapes])
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()]).tolist()
        self._parts = list(zip(self.shapes, [0, *ends[:-1]], ends, self.shapes.values(), strict=True))
        self.rounds = len(document["rounds"])
        self.rates = [round_["rate"] for round_ in document["rounds"]]
        self._steps = [
            {own["client"]: [self._batch(step) for step in own["steps"]] for own in entry["clients"]}
            for entry in document["rounds"]
        ]

    @classmethod
    def read(cls, folder: Path) -> ConformanceCase:
        """The case in a folder of the kit.

        Args:
            folder: the folder of the case.
        """
        document = json.loads((folder / DOCUMENT).read_text(encoding="utf-8"))
        with np.load(folder / ARRAYS, allow_pickle=False) as arrays:
            return cls(document, dict(arrays))

    def write(self, folder: Path) -> None:
        """Write the case into an empty folder. Floats in the JSON are read back exactly.

        Args:
            folder: an empty folder.
        """
        folder.mkdir(parents=True)
        (folder / DOCUMENT).write_text(json.dumps(self.document, indent=1) + "\n", encoding="utf-8")
        np.savez(folder / ARRAYS, allow_pickle=False, **self.arrays)

    def cast(self, dtype: Any) -> ConformanceCase:
        """The same case with its real numbers in another precision.

        Args:
            dtype: numpy's type of real numbers.
        """
        real = {name: a.astype(dtype) if a.dtype.kind == "f" else a for name, a in self.arrays.items()}
        return ConformanceCase(self.document, real)

    def cohort(self, number: int) -> list[int]:
        """The clients of a round, in ascending order.

        Args:
            number: the round, from 0.
        """
        return list(self._steps[number])

    def batches(self, number: int, client: int) -> list[Batch]:
        """The local steps of a client in a round, in their order. The client must be in the cohort.

        Args:
            number: the round, from 0.
            client: the client's number, from 0.
        """
        return self._steps[number][client]

    def _batch(self, step: dict[str, Any]) -> Batch:
        rows = step["samples"]
        return Batch(self.x[rows], self.y[rows], tuple(step["draws"]), step["ends_pass"])

    def trained(self, number: int, client: int, received: np.ndarray) -> np.ndarray:
        """The client's model after its local steps from the received model, (P,), for adapters that test only a server.

        Args:
            number: the round, from 0.
            client: the client's number, from 0.
            received: the model as a vector, shape (P,).
        """
        w, velocity = received, np.zeros_like(received)
        for x, y, _, _ in self.batches(number, client):
            gradient = self.gradient(w, x, y)
            if self.clip is not None:
                gradient = gradient * min(1.0, self.clip / np.linalg.norm(gradient))
            velocity = self.momentum * velocity + (gradient + self.weight_decay * w)
            w = w - self.rates[number] * velocity
        return w

    def samples(self, client: int) -> tuple[np.ndarray, np.ndarray]:
        """All of a client's samples.

        Args:
            client: the client's number, from 0.

        Returns: x, (n_c, d), and y, (n_c,), in the order of the data.
        """
        return self.x[self.members[client]], self.y[self.members[client]]

    def tensors(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """The tensors by name, made from a vector (P,).

        Args:
            flat: the model as a vector, shape (P,).
        """
        return {name: flat[first:end].reshape(shape) for name, first, end, shape in self._parts}

    def flat(self, tensors: dict[str, Any]) -> np.ndarray:
        """The vector (P,) made from tensors by name.

        Args:
            tensors: the model's tensors by name.
        """
        return np.concatenate([np.asarray(tensors[name]).ravel() for name in self.shapes])

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the arrays that an implementation must return after every round.

        They are the names of the model's tensors. For LoRA the only name is "weight", for the weight base + B A, since
        the factors A and B are not unique.
        """
        return ("weight",) if self.model == "lora" else tuple(self.shapes)

    def result(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays of `results` for the model with this vector (P,).

        Args:
            w: the model as a vector, shape (P,).
        """
        own = self.tensors(w)
        return {"weight": adapted(own)} if self.model == "lora" else own

    def gradient(self, w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The gradient at w of the mean of the samples' losses, or of their sum if the case's `loss` says so, (P,).

        Args:
            w: the model as a vector, (P,).
            x: inputs of samples.
            y: labels of the same samples.
        """
        return self.flat(GRADIENTS[self.model](self.tensors(w), x, y)) / (1 if self.loss == "sum" else len(y))


def line(w: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """The gradient of the sum of (w.x - y)^2 / 2."""
    return {"w": x.T @ (x @ w["w"] - y)}


def logistic(w: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """The gradient of the sum of the cross-entropies of weight x + bias."""
    error = _error(x @ w["head.weight"].T + w["head.bias"], y)
    return {"head.weight": error.T @ x, "head.bias": error.sum(axis=0)}


def network(w: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """The gradient of the sum of the cross-entropies of head(tanh(body(x))), both layers with a bias."""
    hidden = np.tanh(x @ w["body.0.weight"].T + w["body.0.bias"])
    error = _error(hidden @ w["head.weight"].T + w["head.bias"], y)
    back = (error @ w["head.weight"]) * (1 - hidden**2)
    return {
        "body.0.weight": back.T @ x,
        "body.0.bias": back.sum(axis=0),
        "head.weight": error.T @ hidden,
        "head.bias": error.sum(axis=0),
    }


def lora(w: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """The gradient of the sum of the cross-entropies of (base + B A) x, where base is fixed."""
    whole = _error(x @ adapted(w).T, y).T @ x
    return {
        "base.weight": np.zeros_like(w["base.weight"]),
        "lora_A": w["lora_B"].T @ whole,
        "lora_B": whole @ w["lora_A"].T,
    }


def adapted(w: dict[str, np.ndarray]) -> np.ndarray:
    """The weight base + B A of LoRA's tensors."""
    return w["base.weight"] + w["lora_B"] @ w["lora_A"]


GRADIENTS = {"line": line, "logistic": logistic, "lora": lora, "network": network}


def _error(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The derivative of -log softmax(logits)_y."""
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(y)), y] -= 1
    return chances
