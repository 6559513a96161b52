"""Adapter of the conformance kit for Flower's strategies, which decide what is sent and combine the replies.

Flower leaves local training to its users, so this file takes the cases' local steps, in numpy. The server's work is
done by Flower only. In each round the strategy gets only the nodes (Flower's clients) of the case's cohort.
"""

from __future__ import annotations

import os
from typing import Any

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0"}  # set before flwr is imported, since flwr reads this variable at import

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedProx,
    FedYogi,
    dp_fixed_clipping,
)
from flwr.supercore.task_identity import TaskIdentity

# Flower's messages need an identity of the task, the run and the node, which a server app would have.
TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
PACKAGES = ("flwr",)
ALIKE = "dp-fedavg", "fl-ntk"  # for these methods all clients are given the same weight


class Cohort:
    """The nodes from which a strategy may choose: those of the cohort of one round."""

    def __init__(self, nodes: list[int]) -> None:
        self.nodes = nodes

    def get_node_ids(self) -> list[int]:
        """The numbers of all nodes."""
        return self.nodes


def strategy(case: Any) -> Any:
    """Flower's strategy with the case's options."""
    given = case.options
    counts: dict[str, Any] = {"min_train_nodes": 1, "min_available_nodes": 1}
    if case.method in ("fedavg", "fl-ntk", "fedprox") and given["server_rate"] != 1:
        if case.method == "fedprox":
            raise NotImplementedError("Flower's FedProx has no server rate")
        return FedAvgM(server_learning_rate=given["server_rate"], **counts)
    if case.method in ("fedavg", "fl-ntk"):
        return FedAvg(**counts)
    if case.method == "fedprox":
        return FedProx(proximal_mu=given["mu"], **counts)
    if case.method == "fedavgm":
        if given["nesterov"]:
            raise NotImplementedError("Flower's FedAvgM has no Nesterov step")
        return FedAvgM(server_learning_rate=given["server_rate"], server_momentum=given["momentum"], **counts)
    if case.method in ("fedadam", "fedyogi"):
        kind = FedAdam if case.method == "fedadam" else FedYogi
        decays = {"beta_1": given["first"], "beta_2": given["second"]}
        return kind(eta=given["server_rate"], tau=given["tau"], **decays, **counts)
    if case.method == "fedadagrad":
        if given["first"]:
            raise NotImplementedError("Flower's FedAdagrad has no first moment")
        return FedAdagrad(eta=given["server_rate"], tau=given["tau"], **counts)
    if case.method == "dp-fedavg":
        if min(case.sizes) < given["cap"]:
            raise NotImplementedError("the clients' weights differ, and Flower's noise is for equal ones")
        drawn = len(case.cohort(0))
        wrapped = DifferentialPrivacyServerSideFixedClipping
        return wrapped(FedAvg(**counts), given["noise"], given["bound"], num_sampled_clients=drawn)
    raise NotImplementedError(f"Flower has no strategy for {case.method}")


def train(case: Any, received: np.ndarray, number: int, client: int, mu: float) -> np.ndarray:
    """Takes a client's local steps, with momentum, weight decay and clipping.

    FedProx's proximal term follows the formula on Flower's page.
    """
    w, velocity = received, np.zeros_like(received)
    for batch in case.batches(number, client):
        gradient = case.gradient(w, batch.x, batch.y) + mu * (w - received)
        if case.clip is not None:
            gradient = gradient * min(1.0, case.clip / np.linalg.norm(gradient))
        velocity = case.momentum * velocity + gradient + case.weight_decay * w
        w = w - case.rates[number] * velocity
    return w


def run(case: Any) -> Any:
    """The strategy's model after every round."""
    server = strategy(case)
    arrays, sizes = to_record(case.tensors(case.start)), case.sizes
    for number in range(case.rounds):
        nodes = [client + 1 for client in case.cohort(number)]  # Flower's numbers of nodes are not 0
        replies = []
        for message in server.configure_train(number + 1, arrays, ConfigRecord(), Cohort(nodes)):
            client = message.metadata.dst_node_id - 1
            mu = message.content["config"].get("proximal-mu", 0.0)
            start = case.flat(to_tensors(message.content["arrays"]))
            end = to_record(case.tensors(train(case, start, number, client, mu)))
            count = MetricRecord({"num-examples": 1 if case.method in ALIKE else sizes[client]})
            replies.append(Message(content=RecordDict({"arrays": end, "metrics": count}), reply_to=message))
        dp_fixed_clipping.add_gaussian_noise_inplace = noise_of(case, number)
        arrays, _ = server.aggregate_train(number + 1, replies)
        yield to_tensors(arrays)


def noise_of(case: Any, number: int) -> Any:
    """A replacement for Flower's function that adds noise.

    It adds the case's noise, where Flower would draw its own.
    """

    def add(arrays: list[np.ndarray], deviation: float) -> None:
        for array, part in zip(arrays, case.tensors(case.noise[number]).values(), strict=True):
            array += deviation * part

    return add


def to_record(tensors: dict[str, np.ndarray]) -> Any:
    """Arrays as Flower sends them."""
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in tensors.items()})


def to_tensors(record: Any) -> dict[str, np.ndarray]:
    """The arrays in a record of Flower."""
    return {name: array.numpy() for name, array in record.items()}
