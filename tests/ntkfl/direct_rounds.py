"""Rounds of the linear methods, computed from their formulas.

The weights of a linear model are trained in long double precision.
"""

from dataclasses import dataclass

import numpy as np

LONG = np.longdouble


@dataclass(frozen=True)
class Direct:
    """Rounds of a linear model f = X w that starts at w = 0; the losses are the clients' sums of squares.

    x, y: samples (n, d) and labels (n,). members: each client's samples. steps: each client's number of local steps.
    eta: the local step size; step k has eta times `factors[k]`, or times the last factor if there are fewer factors
        than steps.
    momentum: the clients' momentum.
    """

    x: np.ndarray
    y: np.ndarray
    members: list[np.ndarray]
    steps: list[int]
    eta: float
    factors: tuple[float, ...] = ()
    momentum: float = 0.0

    def rate(self, step):
        return LONG(self.eta) * LONG(self.factors[min(step, len(self.factors) - 1)] if self.factors else 1)

    def gradient(self, c, w):
        x, y = (part[self.members[c]].astype(LONG) for part in (self.x, self.y))
        return x.T @ (x @ w - y)

    def local(self, c, w, drift=0, pull=0):
        """Returns the displacement v - w of client c after its local steps from w.

        Each step adds two terms to the client's gradient: the vector `drift`, such as SCAFFOLD's correction, and the
        proximal term `pull` (v - w).
        """
        v, velocity = w.copy(), np.zeros_like(w)
        for k in range(self.steps[c]):
            velocity = LONG(self.momentum) * velocity + self.gradient(c, v) + drift + LONG(pull) * (v - w)
            v = v - self.rate(k) * velocity
        return v - w

    def length(self, c, pull=0):
        """Returns how far client c moves under a constant gradient of 1."""
        at = velocity = LONG(0)
        for k in range(self.steps[c]):
            velocity = LONG(self.momentum) * velocity + 1 - LONG(pull) * at
            at = at + self.rate(k) * velocity
        return at

    def weights(self, method, options, rounds):
        """Returns the model's weights after 0, 1, ..., `rounds` rounds."""
        models = getattr(self, method.replace("-", "_"))(np.zeros(self.x.shape[1], LONG), **options)
        return [np.zeros(self.x.shape[1], LONG), *(next(models) for _ in range(rounds))]

    def mean(self, w, shares=None, **local):
        clients = range(len(self.members))
        shares = shares or [LONG(len(owned)) / len(self.y) for owned in self.members]
        return sum(shares[c] * self.local(c, w, **local) for c in clients)

    def fedavg(self, w, server_rate=1.0, mu=0.0):
        while True:
            w = w + LONG(server_rate) * self.mean(w, pull=mu)
            yield w

    fedprox = fedavg

    def fl_ntk(self, w, server_rate=1.0):
        count = len(self.members)
        while True:
            w = w + LONG(server_rate) * self.mean(w, [LONG(1) / count] * count)
            yield w

    def fednova(self, w, mu=0.0):
        shares = [LONG(len(owned)) / len(self.y) for owned in self.members]
        lengths = [self.length(c, mu) for c in range(len(self.members))]
        whole = sum(p * a for p, a in zip(shares, lengths, strict=True))
        while True:
            w = w + whole * self.mean(w, [p / a for p, a in zip(shares, lengths, strict=True)], pull=mu)
            yield w

    def fedavgm(self, w, momentum=0.9, nesterov=False, server_rate=1.0):
        velocity = np.zeros_like(w)
        while True:
            mean = self.mean(w)
            velocity = LONG(momentum) * velocity + mean
            w = w + LONG(server_rate) * (mean + LONG(momentum) * velocity if nesterov else velocity)
            yield w

    def cyclic(self, w, server_rate=1.0):
        while True:
            for c in range(len(self.members)):
                w = w + LONG(server_rate) * self.local(c, w)
            yield w

    def scaffold(self, w, option="II", server_rate=1.0):
        count = len(self.members)
        own, whole = [np.zeros_like(w)] * count, np.zeros_like(w)
        while True:
            moves = [self.local(c, w, drift=whole - own[c]) for c in range(count)]
            later = [
                self.gradient(c, w) if option == "I" else own[c] - whole - moves[c] / self.length(c)
                for c in range(count)
            ]
            w = w + LONG(server_rate) * sum(moves) / count
            whole = whole + sum(new - old for new, old in zip(later, own, strict=True)) / count
            own = later
            yield w

    def feddyn(self, w, alpha=0.01):
        count, alpha = len(self.members), LONG(alpha)
        dual, mean = [np.zeros_like(w)] * count, np.zeros_like(w)
        while True:
            moves = [self.local(c, w, drift=-dual[c], pull=alpha) for c in range(count)]
            dual = [old - alpha * move for old, move in zip(dual, moves, strict=True)]
            mean = mean - alpha * sum(moves) / count
            w = w + sum(moves) / count - mean / alpha
            yield w
