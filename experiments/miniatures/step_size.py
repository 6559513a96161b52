"""The control of a method: FedAvg at a step size that is chosen to match the method.

If outputs are linear in the weights, the method has the same effect as FedAvg at this step size, exactly or
approximately.

If the control gains as much as the method, the method's gain is an effect of the step size. Every factor of the step
size comes from the exact limit of the method at infinite width (the method's function `linear`, or statement
fedgucci/X4 for FedGuCci). A network with cross-entropy follows this limit to first order in the rate.
"""

import math
from typing import Any, Literal

import torch

from experiments.miniatures.miniature import Keys
from ntkfl.training.config import checked
from ntkfl.training.methods import options
from ntkfl.training.optimizers import SGD

# number of training images of a data set, if there is no key `samples`
TRAINING_IMAGES = {"digits": 1438, "fashion-mnist": 60_000, "cifar-10": 50_000}
# for each distribution of alpha in the connectivity loss, the expectations E alpha and E alpha^2
ALPHA_MOMENTS = {"uniform": (1 / 2, 1 / 3), "gauss2": (1 / 2, 1 / 3), "half": (1 / 2, 1 / 4)}
CONNECTED = "fedgucci", "fedgucci+"
CONTROL_OF = {
    "fedgucci": "FedAvg with the local rate times 1 + beta E alpha^2 and the server's rate times (1 + beta E alpha) / "
    "(1 + beta E alpha^2) (fedgucci/X4); for uniform alpha the factors are 1 + beta/3 and 1 + beta/(6 + 2 beta)",
    "fedgucci+": "the control of FedGuCci, so that gains by calibration and sharpness stay in the difference",
    "fedprox": "FedAvg with the server's rate times a ratio: a client's displacement under a constant gradient with "
    "the pull, over that without it",
    "fednova": "FedAvg itself, since FedNova keeps FedAvg's mean length of a round by construction",
    "scaffold": "FedAvg with the unweighted mean, since SCAFFOLD's variates cancel in the mean of clients that take "
    "equally many steps",
    "feddyn": "FedAvgM with the Nesterov momentum 1 - alpha times a client's displacement per unit gradient, if all "
    "clients take part: FedDyn's duals sum up all rounds, which no rate of FedAvg does",
    "fedavgm": "FedAvg with the server's rate divided by 1 - momentum",
}
NONE_BECAUSE = {
    "cyclic": "its clients train one after another, and nothing is averaged",
    "fedadam": "its server divides by roots of squares, coordinate by coordinate",
    "fedasam": "its gradients are taken at a point that depends on the size of every weight",
    "fedavg-aligned": "it is FedAvg at the same rate, except that the server permutes units before it averages",
    "fedfa": "it changes features and classifiers, and no step size has that effect",
    "fedgma": "its server masks coordinates by the signs of the clients' differences",
    "fedlc": "it has another loss, whose margin of a class depends on the client",
    "fedrod": "it has another loss, a balanced cross-entropy, and a second head",
    "fedsam": "its radius changes the gradient by a factor that depends on the curvature; at radius 0 it is FedAvg at "
    "the same rate, and is compared with FedAvg already",
    "fedyogi": "its server divides by roots of squares, coordinate by coordinate",
    "local": "its server's model never moves",
    "moon": "its second loss compares directions of features",
}


def control(keys: Keys) -> Keys | None:
    """The keys of the control of a training run, or None if the method has no control (`NONE_BECAUSE` says why).

    `CONTROL_OF` describes each control in words. There are two special cases for FedGuCci. First, Adam's steps do not
    depend on the size of a gradient. So of the two factors only the factor of the server's rate stays, and the local
    rate is divided by this factor. Second, FedGuCci may take two optimizer steps one after the other, each with the
    optimizer's momentum. Then the local rate is multiplied by a ratio of two displacements under a constant gradient:
    the displacement with these two steps, divided by the displacement with one step in their place.

    Args:
        keys: keys of a training run.

    Source: fedgucci/X4 and the functions `linear` of the methods.
    """
    if "method" not in keys:
        return None
    if keys.get("ima"):
        return _without_averaging(keys)
    method, given = keys["method"], dict(keys.get("options", {}))
    values = {name: option.default for name, option in options(method).items()} | given
    plain: dict[str, Any] = {key: value for key, value in keys.items() if key != "options"} | {"method": "fedavg"}
    config = checked({**keys, "rounds": max(1, keys.get("rounds", 1))})
    server, steps = float(values.get("server_rate", 1.0)), local_steps(keys)
    mean_rate = config.rate * _mean_of_powers(config.rate_decay, config.rounds)
    if method in CONNECTED:
        local, further = _of_connected(values, method, config.optimizer, config.momentum, steps)
        return plain | {"rate": config.rate * local} | _server(further)
    if method == "fednova" and not values["mu"]:
        return plain
    if method == "scaffold":
        return plain | unweighted(config.momentum) | _server(server)
    if config.optimizer == "adam":
        return None
    if method in ("fedprox", "fednova"):
        pulled = way(steps, config.momentum, mean_rate * values["mu"])
        return plain | _server(server * (pulled / way(steps, config.momentum) if method == "fedprox" else 1.0))
    if method == "feddyn" and config.participation == 1:
        length = mean_rate * way(steps, config.momentum, mean_rate * values["alpha"])
        momentum = 1 - values["alpha"] * length
        return plain | {"method": "fedavgm", "options": {"momentum": momentum, "nesterov": True}}
    if method == "fedavgm":
        return plain | _server(server / (1 - values["momentum"]))
    return None


def unweighted(momentum: float) -> dict[str, Any]:
    """The keys of FedAvg with an unweighted mean of the clients at the server.

    The keys name the method fl-ntk, whose server takes this mean, and set the training target to classes.

    Args:
        momentum: momentum of the clients, in [0, 1).
    """
    of_classes = {"target": "classes", "unit": False, "reduction": "mean"}
    return {"method": "fl-ntk", **of_classes, "momentum": momentum}


def local_steps(keys: Keys) -> int:
    """The number of steps that a client of mean size takes in a round.

    Args:
        keys: keys of a training run.
    """
    if "local_steps" in keys:
        return keys["local_steps"]
    images = keys.get("samples") or TRAINING_IMAGES[keys["data"].partition(":")[0]]
    own = math.ceil(keys.get("train_share", 1) * images / keys["clients"])
    return keys["epochs"] * math.ceil(own / keys["batch_size"])


def way(steps: int, momentum: float, pull: float = 0.0) -> float:
    """The displacement after some steps at rate 1, if the gradient is constant and has length 1.

    Args:
        steps: number of steps.
        momentum: the momentum of SGD.
        pull: the share of the displacement so far that each step takes back, as FedProx's proximal term does; default
            0.
    """
    return float(SGD(momentum).coefficient(torch.tensor([steps], dtype=torch.float64), pull))


def _without_averaging(keys: Keys) -> Keys | None:
    """The keys of the control of a method with IMA: the same method with IMA's rates and passes, without averaging.

    IMA whose window is a single model averages nothing. The result is None if the keys have this window already.
    """
    if keys.get("ima_window") == 1:
        return None
    late = keys.get("ima_exploration", "exponential")
    if late == "none":
        return {key: value for key, value in keys.items() if not key.startswith("ima")}
    # with these decays `ima_released` changes only the rounds in which models are averaged
    only_there = {"ima_released"} if late in ("exponential", "constant") else set()
    return {key: value for key, value in keys.items() if key not in only_there} | {"ima_window": 1}


def _of_connected(values: dict[str, Any], method: str, optimizer: str, momentum: float, steps: int) -> tuple:
    """The factors by which the connectivity loss changes the local rate and the server's rate."""
    released, beta = values["released"], values["beta"]
    alpha = values["alpha"] or ("half" if released else "uniform")
    step: Literal["joint", "sequential"] = values["step"] or ("sequential" if released else "joint")
    mean, square = ALPHA_MOMENTS[alpha]
    if step == "joint":
        further = (1 + beta * mean) / (1 + beta * square)
        return (1 / further if optimizer == "adam" else 1 + beta * square), further
    if optimizer == "adam":
        return 2.0, 1.0  # the client takes two steps of equal length in place of one
    # the released code adds the gradient at w + e to the gradient at w
    passes = 2 if released and method == "fedgucci+" else 1
    velocity = walked = 0.0
    for _ in range(steps):
        for gradient in (1.0, passes * beta * mean):
            velocity = momentum * velocity + gradient
            walked += velocity
    return walked / way(steps, momentum), 1.0


def _mean_of_powers(decay: float, count: int) -> float:
    return 1.0 if decay == 1 else (1 - decay**count) / (count * (1 - decay))


def _server(rate: float) -> dict[str, Any]:
    """The option for the server's rate; no option if the rate is 1."""
    return {} if rate == 1 else {"options": {"server_rate": rate}}
