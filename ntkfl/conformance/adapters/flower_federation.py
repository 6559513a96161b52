"""Adapter for Flower as a real federation on one machine: a server and a process for every client, by gRPC.

The adapter runs only cases of plain FedAvg with all clients in every round, since an adapter cannot prescribe which
clients Flower draws. All connections are on the loopback address. As a script, `python flower_federation.py CASE.py
FOLDER CLIENT ADDRESS` is one client.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0"}  # set before flwr is imported, since flwr reads this variable at import

import flwr.client
import flwr.server
import numpy as np
from flwr.common import ndarrays_to_parameters
from flwr.server.strategy import FedAvg

PACKAGES = ("flwr", "grpcio")
PATIENCE = 60.0  # time limits in seconds: for a round, and for a client to find the server


class OneClient(flwr.client.NumPyClient):
    """A client of Flower that takes the case's local steps."""

    def __init__(self, case: Any, client: int) -> None:
        self.case, self.client = case, client

    def fit(self, parameters: list[np.ndarray], config: dict[str, Any]) -> Any:
        """The local steps of the round that the server names."""
        received = np.concatenate([value.ravel() for value in parameters])
        w = self.case.trained(int(config["round"]) - 1, self.client, received)
        return list(self.case.tensors(w).values()), self.case.sizes[self.client], {}


def run(case: Any) -> Any:
    """The server's model after every round."""
    if case.method != "fedavg" or case.options["server_rate"] != 1 or case.clip is not None:
        raise NotImplementedError("only plain FedAvg")
    if any(len(case.cohort(number)) < case.population for number in range(case.rounds)):
        raise NotImplementedError("Flower draws the clients of a round itself")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    models: list[dict[str, np.ndarray]] = []

    def seen(number: int, parameters: list[np.ndarray], config: dict[str, Any]) -> None:
        if number:
            models.append(dict(zip(case.shapes, parameters, strict=True)))

    everybody = case.population
    strategy = FedAvg(
        fraction_fit=1.0,
        fraction_evaluate=0.0,
        min_fit_clients=everybody,
        min_available_clients=everybody,
        on_fit_config_fn=lambda number: {"round": number},
        evaluate_fn=seen,
        accept_failures=False,
        initial_parameters=ndarrays_to_parameters(list(case.tensors(case.start).values())),
    )
    with clients(case, address):
        config = flwr.server.ServerConfig(num_rounds=case.rounds, round_timeout=PATIENCE)
        flwr.server.start_server(server_address=address, config=config, strategy=strategy)
    return models


@contextmanager
def clients(case: Any, address: str) -> Iterator[None]:
    """A context with a running process for every client."""
    reading = sys.modules[type(case).__module__].__file__
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "case"
        case.write(folder)
        command = [sys.executable, __file__, str(reading), str(folder)]
        quiet = subprocess.DEVNULL
        started = [
            subprocess.Popen([*command, str(client), address], stdout=quiet, stderr=quiet)
            for client in range(case.population)
        ]
        try:
            yield
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()


def main() -> None:
    """Run the process of one client."""
    path, folder, client, address = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("conformance_case", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    client_app = OneClient(module.ConformanceCase.read(Path(folder)), int(client)).to_client()
    flwr.client.start_client(server_address=address, client=client_app, insecure=True, max_wait_time=PATIENCE)


if __name__ == "__main__":
    main()
