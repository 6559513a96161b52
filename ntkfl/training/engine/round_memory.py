"""The memory of a round of training, checked before the first round."""

import math

from ntkfl.memory import require
from ntkfl.training.engine.federation import Federation, State
from ntkfl.training.model import free_on
from ntkfl.training.tree import Tree, leaves

TRAINED = 12  # copies of the parameters while a client of FedAvg trains and is averaged; other rules: up to 24
A_STEP = 130  # bytes of a step of a client's plan, beside its batch


def require_round(federation: Federation, start: State) -> None:
    """Refuse a run whose rounds do not fit into memory.

    Raises:
        TooLittleMemory: the message gives the clients, local steps or epochs that would fit.
    """
    model, work, clients = federation.model, federation.work, federation.data.clients
    where = free_on(next(iter(start.model.values())).device)
    trained = TRAINED * _bytes(start.model)
    require(f"training {model.name}", lambda: trained, where, "a smaller model needs less")

    kept = 2 * _bytes(federation.method.local.initial(model, federation.method.server.broadcast(start.server, 0)))
    require("what the clients keep between rounds", lambda clients: kept * clients, clients=clients)

    largest = max(map(len, federation.data.members()))
    batch = min(largest, work.batch_size or largest)
    plan = federation.together(start.model, clients) * (A_STEP + 17 * batch)
    if work.most_steps is not None:
        require("the plan of a round", lambda local_steps: plan * local_steps, local_steps=work.most_steps)
    else:
        a_pass = plan * math.ceil(largest / batch)
        require("the plan of a round", lambda epochs: a_pass * epochs, epochs=work.epochs)


def _bytes(tree: Tree) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in leaves(tree))
