"""Adapter of the conformance kit for peft: task arithmetic and TIES from peft's merge_utils, and peft's combinations of
LoRA adapters.

Nothing is trained by peft, since clients take the case's own local steps. peft merges tensor by tensor. Of peft's
combinations of adapters, "linear" is used for FedIT, "cat" for FLoRA, and "svd" for FlexLoRA.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from peft.utils.merge_utils import task_arithmetic, ties

PACKAGES = ("peft", "torch")
COMBINATIONS = {"fedit": "linear", "flora": "cat", "flexlora": "svd"}


def run(case: Any) -> Any:
    """The model after every round."""
    torch.set_default_dtype(torch.float64)
    warnings.filterwarnings("ignore")  # peft warns that nothing is pruned at density 1
    if case.method in COMBINATIONS:
        return adapters(case)
    if case.method in ("ties", "task-arithmetic"):
        return models(case)
    raise NotImplementedError(f"peft has no method {case.method}")


def models(case: Any) -> Any:
    """The model after every round. The tensors of the model are merged one by one."""
    given = case.options
    if given.get("weighted"):
        raise NotImplementedError("peft divides by the number of models, not by their weights")
    w = case.start
    for number in range(case.rounds):
        moves = [case.tensors(case.trained(number, client, w) - w) for client in case.cohort(number)]
        scales = torch.full((len(moves),), given["scale"])
        merged = {}
        for name in case.shapes:
            vectors = [torch.tensor(move[name]) for move in moves]
            if case.method == "ties":
                merged[name] = ties(vectors, scales, given["density"]).numpy()
            else:
                merged[name] = task_arithmetic(vectors, scales).numpy()
        w = w + case.flat(merged)
        yield case.tensors(w)


def adapters(case: Any) -> Any:
    """The model after every round. peft combines the clients' LoRA adapters, weighted by the clients' shares."""
    first = case.tensors(case.start)
    own, base = dict(first), first["base.weight"]
    rank = len(own["lora_A"])
    for number in range(case.rounds):
        clients = case.cohort(number)
        total = sum(case.sizes[client] for client in clients)
        sent = case.flat(own | {"base.weight": base})
        model = get_peft_model(torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False)), config(rank), "sent")
        layer = model.base_model.model[0]
        for client in clients:
            end = case.tensors(case.trained(number, client, sent))
            model.add_adapter(str(client), config(rank))
            layer.lora_A[str(client)].weight.data = torch.tensor(end["lora_A"])
            layer.lora_B[str(client)].weight.data = torch.tensor(end["lora_B"])
        names, shares = [str(client) for client in clients], [case.sizes[client] / total for client in clients]
        model.add_weighted_adapter(names, shares, "merged", COMBINATIONS[case.method])
        a, b = (factor["merged"].weight.detach().numpy() for factor in (layer.lora_A, layer.lora_B))
        if case.method == "flora":
            base, own = base + b @ a, first
        else:
            own = {"lora_A": a, "lora_B": b}
        yield {"weight": base + own["lora_B"] @ own["lora_A"]}


def config(rank: int) -> LoraConfig:
    """peft's settings for adapters of this rank, with which the product B A is added without a factor."""
    return LoraConfig(r=rank, lora_alpha=rank, target_modules=["0"])
