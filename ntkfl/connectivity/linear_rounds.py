"""FedGuCci and FedAvg on a model that is linear in its weights, f(x) = phi(x) . w, in floats or exact rationals.

The gradient of the connectivity loss to the anchor w_a is the integral over alpha of alpha grad L(alpha w + (1 - alpha)
w_a). The integrand is a polynomial in alpha, of degree 2 for the squared loss and 4 for the fourth power, which Boole's
rule integrates exactly. So in rational arithmetic the run is exact. The run is compared with the theorem on FedGuCci's
equivalent FedAvg (fedgucci/X4), and the code here does not use this theorem.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, fmpq
from jaxtyping import Float

from ntkfl.problem import checked_owner, finite_array

# maps 4 alpha to 90 alpha times the weight of Boole's rule at alpha; at alpha = 0 the product is 0
BOOLE = {1: 8, 2: 6, 3: 24, 4: 7}

Arithmetic = Callable[[Any], np.ndarray]
Gradient = Callable[[np.ndarray], np.ndarray]


def double(values: Any) -> np.ndarray:
    """The values as an array of float64, in their shape.

    Args:
        values: numbers or arrays of them.
    """
    return np.asarray(values, float)


def extended(values: Any) -> np.ndarray:
    """The values as an array of extended precision, in their shape.

    Args:
        values: numbers or arrays of them.
    """
    return np.asarray(values, np.longdouble)


def rational(values: Any) -> np.ndarray:
    """The values as exact rationals, in their shape, in an array of objects.

    Values that are already intervals with error bounds (flint's `arb`) are not changed.

    Args:
        values: numbers or arrays of them.
    """
    objects = np.asarray(values, object)
    flat = [v if isinstance(v, fmpq | arb) else fmpq(*float(v).as_integer_ratio()) for v in objects.ravel()]
    exact = np.empty(len(flat), object)
    exact[:] = flat
    return exact.reshape(objects.shape)


@dataclass(frozen=True, eq=False)
class LinearRounds:
    """The data, the start and the steps of a federated run of a linear model.

    Client c's loss is scale_c / degree times the sum over its samples of (f - y)^degree.

    Args:
        features: phi, (n, p).
        labels: the labels y, (n,).
        owner: the client of each sample, 0..N-1, (n,); every client has samples.
        scale: the factor of each client's loss, (N,). The factor is 1 for Algorithm 1 of FL-NTK, and 2 / n_c for a mean
            of squares.
        weights: the clients' positive weights in the server's mean, (N,). In each round they are divided by the sum
            over the participants.
        start: w_0, (p,).
        participants: the clients of each round.
        eta_local: step size of the clients.
        eta_global: step size of the server.
        local_steps: number of gradient steps of a client in a round.
        decay: coefficient of weight decay.
        degree: the power of the residuals in the loss: 2, the squared loss, or 4.

    Raises:
        ValueError: shapes do not fit; an entry is not finite; a client has no samples; a weight is not positive; a
            round has no participants or an unknown client; the degree is neither 2 nor 4.
    """

    features: Float[np.ndarray, "n p"]
    labels: Float[np.ndarray, " n"]
    owner: np.ndarray
    scale: Float[np.ndarray, " N"]
    weights: Float[np.ndarray, " N"]
    start: Float[np.ndarray, " p"]
    participants: tuple[tuple[int, ...], ...]
    eta_local: float
    eta_global: float
    local_steps: int
    decay: float = 0.0
    degree: int = 2

    def __post_init__(self) -> None:
        n, p = np.shape(self.features)
        count = len(self.weights)
        for name, shape in {"labels": (n,), "owner": (n,), "scale": (count,), "start": (p,)}.items():
            shape_given = np.shape(getattr(self, name))
            if shape_given != shape:
                raise ValueError(
                    f"{name} has shape {shape_given}; {n} samples, {p} features, {count} clients need {shape}"
                )
        for name in ("features", "labels", "scale", "weights", "start", "eta_local", "eta_global", "decay"):
            finite_array(name, getattr(self, name))
        owners = sorted({int(c) for c in checked_owner(self.owner, n)})
        if owners != list(range(count)):
            raise ValueError(
                f"samples are owned by clients {owners}; with {count} weights each of 0..{count - 1} has some"
            )
        if not (np.asarray(self.weights) > 0).all():
            raise ValueError(f"the smallest client weight is {np.min(self.weights)}; every weight must be positive")
        for number, clients in enumerate(self.participants):
            if not clients or not set(clients) <= set(owners) or len(set(clients)) < len(clients):
                raise ValueError(f"round {number} has the participants {clients}; it needs some of {owners}, each once")
        if self.degree not in (2, 4):
            raise ValueError(f"degree is {self.degree}; it must be 2 or 4")

    def gradient(self, client: int, arithmetic: Arithmetic) -> Gradient:
        """The gradient of one client's loss, without weight decay.

        Args:
            client: the client's number, from 0.
            arithmetic: the kind of numbers: `double`, `extended` or `rational`.
        """
        own = np.flatnonzero(np.asarray(self.owner) == client)
        phi, y = arithmetic(self.features[own]), arithmetic(self.labels[own])
        scale = arithmetic(self.scale[client])[()]
        return lambda w: phi.T @ ((phi @ w - y) ** (self.degree - 1)) * scale

    def server_mean(self, clients: Sequence[int], models: Sequence[np.ndarray], arithmetic: Arithmetic) -> np.ndarray:
        """The weighted mean of the participants' models, (p,).

        Args:
            clients: the participants; their `weights` are divided by the sum.
            models: the participants' models, (p,) each.
            arithmetic: the arithmetic of the weights.
        """
        weights = [arithmetic(self.weights[c])[()] for c in clients]
        total = sum(weights[1:], weights[0])
        return sum(weight / total * model for weight, model in zip(weights, models, strict=True))


def fedgucci(run: LinearRounds, beta: float, anchors: int = 1, arithmetic: Arithmetic = double) -> np.ndarray:
    """The global weights of every round of FedGuCci, (T+1, p).

    Clients descend along L_c + beta times the mean of the connectivity losses to the last `anchors` global models
    (fewer in the first rounds). The newest of them is the model from which the clients start.

    Source: FedGuCci, Eqs (7), (11), (12), Algorithm 1; fedgucci/X4.

    Args:
        run: the data, the start, the steps and the participants.
        beta: the weight of the connectivity losses.
        anchors: number of anchors; default 1.
        arithmetic: `double`, `extended` or `rational`; default `double`.

    Raises:
        ValueError: `anchors` is below 1.
    """
    if anchors < 1:
        raise ValueError(f"anchors is {anchors}; FedGuCci needs at least 1, the current global model")
    share, steps = arithmetic(beta)[()], arithmetic(run.eta_global)[()]
    path = [arithmetic(run.start)]
    for clients in run.participants:
        held = path[-anchors:]
        models = [_connected(run, run.gradient(c, arithmetic), path[-1], held, share, arithmetic) for c in clients]
        path.append(path[-1] + steps * (run.server_mean(clients, models, arithmetic) - path[-1]))
    return np.stack(path)


def fedavg(
    run: LinearRounds,
    eta_local: Any,
    eta_global: Any,
    *,
    pull: Any = 0,
    anchors: int = 1,
    arithmetic: Arithmetic = double,
) -> np.ndarray:
    """The global weights of every round of FedAvg with the given steps in place of the run's own steps, (T+1, p).

    Args:
        run: the data, the start and the participants.
        eta_local: step size of the clients.
        eta_global: step size of the server.
        pull: clients start at s = (1 - pull) w_t + pull times the mean of the last `anchors` global models, and the
            server adds to w_t the mean of the clients' displacements from s. Default 0, plain FedAvg.
        anchors: the number of global models whose mean is taken for `pull`; default 1.
        arithmetic: `double`, `extended` or `rational`; default `double`.
    """
    local, server, lean = (arithmetic(value)[()] for value in (eta_local, eta_global, pull))
    decay = arithmetic(run.decay)[()]
    path = [arithmetic(run.start)]
    for clients in run.participants:
        held = path[-anchors:]
        start = path[-1] + lean * (sum(held[1:], held[0]) / len(held) - path[-1])
        models = []
        for c in clients:
            gradient, w = run.gradient(c, arithmetic), start
            for _ in range(run.local_steps):
                w = w - local * (gradient(w) + decay * w)
            models.append(w)
        path.append(path[-1] + server * (run.server_mean(clients, models, arithmetic) - start))
    return np.stack(path)


def _connected(run: LinearRounds, gradient: Gradient, start, anchors, beta, arithmetic: Arithmetic) -> np.ndarray:
    """One client's weights after its local steps on L + beta mean_j L_connect(., anchor_j)."""
    local, decay = arithmetic(run.eta_local)[()], arithmetic(run.decay)[()]
    w = start
    for _ in range(run.local_steps):
        pulls = [_connectivity_gradient(gradient, w, anchor) for anchor in anchors]
        w = w - local * (gradient(w) + beta * (sum(pulls[1:], pulls[0]) / len(pulls)) + decay * w)
    return w


def _connectivity_gradient(gradient: Gradient, w: np.ndarray, anchor: np.ndarray) -> np.ndarray:
    """The integral over alpha of alpha grad L(alpha w + (1 - alpha) anchor)."""
    terms = [weight * gradient((k * w + (4 - k) * anchor) / 4) for k, weight in BOOLE.items()]
    return sum(terms[1:], terms[0]) / 90
