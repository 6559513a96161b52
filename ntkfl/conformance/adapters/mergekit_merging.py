"""Adapter of the conformance kit for mergekit, whose methods `ties` and `task_arithmetic` merge tensor by tensor.

Clients take the case's own local steps. In the merge, clients count equally, or by their numbers of samples if the case
says so.
"""

from __future__ import annotations

from typing import Any

import torch
from mergekit.merge_methods.base import TensorGroup
from mergekit.merge_methods.registry import get

PACKAGES = ("mergekit", "torch")
NAMES = {"ties": "ties", "task-arithmetic": "task_arithmetic"}


def run(case: Any) -> Any:
    """The model after every round."""
    if case.method not in NAMES:
        raise NotImplementedError(f"mergekit has no method {case.method}")
    given, method = case.options, get(NAMES[case.method])
    w = case.start
    for number in range(case.rounds):
        clients = case.cohort(number)
        models = [case.tensors(case.trained(number, client, w)) for client in clients]
        weight = {k + 1: float(case.sizes[c]) if given.get("weighted") else 1.0 for k, c in enumerate(clients)}
        options: dict[str, Any] = {"weight": weight, "density": dict.fromkeys(weight, given.get("density", 1.0))}
        options |= {"normalize": case.method == "ties", "rescale": False, "int8_mask": False, "lambda": given["scale"]}
        merged = {}
        for name, value in case.tensors(w).items():
            tensors = [torch.tensor(value), *(torch.tensor(end[name]) for end in models)]
            merged[name] = method.merge_group(TensorGroup.from_tensors(tensors, base_index=0), **options).numpy()
        w = case.flat(merged)
        yield case.tensors(w)
