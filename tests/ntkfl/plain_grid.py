"""Rounds of the linear methods for all step sizes of a dense grid, written out from the methods' own descriptions."""

from itertools import product

import numpy as np

from ntkfl.problem import Problem

SHARES = np.geomspace(0.03, 1.9, 25)  # local step sizes, as shares of 1 / max_c |H_cc|
FEW_SHARES = SHARES[::2]
RATES = np.geomspace(0.1, 40, 61)
MOMENTA = 1 - np.geomspace(1, 0.02, 20)
PULLS = np.geomspace(0.01, 100, 41)  # values of the pull, FedProx's mu or FedDyn's alpha, in units of 1 / (K eta_local)
# In these methods a round moves the server by the clients' mean alone.
AVERAGED = "fedavg, server rate 1", "fedavg", "fedprox"
FORGETFUL = *AVERAGED, "cyclic"  # In these methods the residual is the whole state between rounds.


def kernel(kind, n, rng):
    """Returns a Gram matrix of random points, of points in nearly equal pairs, or with eigenvalues from 1 to 1e-3."""
    x = rng.standard_normal((n, max(4, n // 2)))
    if kind == "pairs":
        x[1::2] = x[0::2][: len(x[1::2])] + 0.05 * rng.standard_normal(x[1::2].shape)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    if kind == "ill":
        basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
        h = (basis * np.geomspace(1, 1e-3, n)) @ basis.T
    else:
        cosines = np.clip(x @ x.T, -1, 1)
        h = cosines * (np.pi - np.arccos(cosines)) / (2 * np.pi)
    return (h + h.T) / 2


def random_problem(seed):
    """Returns a random problem, its Gram matrix and a number of local steps.

    Kernels, labels, sizes and clients are of all kinds.
    """
    rng = np.random.default_rng(seed)
    n, clients = int(rng.choice([6, 10, 16, 24])), int(rng.choice([1, 2, 3, 5]))
    h = kernel(rng.choice(["points", "pairs", "ill"]), n, rng)
    vectors = np.linalg.eigh(h)[1]
    labels = {
        "normal": rng.standard_normal(n),
        "signs": rng.choice([-1.0, 1.0], n),
        "top": vectors[:, -1],
        "smooth": h @ rng.standard_normal(n),
        "least": vectors[:, 0],
    }
    y = labels[rng.choice(list(labels))]
    owner = np.append(np.arange(clients), rng.integers(0, clients, n - clients))
    return Problem(rng.standard_normal((n, 3)), y, rng.permutation(owner)), h, int(rng.choice([1, 2, 5, 20]))


class Grid:
    """All settings of a method at once.

    A row is a pair (eta_local, pull) of `steps`. A column is a pair (server rate g, momentum b) of `server`.
    """

    def __init__(self, label, problem, h, local_steps):
        self.label, self.h, self.y, self.K = label, h, problem.y, local_steps
        self.clients, self.n = problem.members, problem.n
        self.size = problem.n if label in FORGETFUL else 2 * problem.n
        self.mask = problem.owner[:, None] == problem.owner
        unit = 1 / max(np.linalg.eigvalsh(h[np.ix_(own, own)])[-1] for own in self.clients)
        rates = [1.0] if label in ("fedavg, server rate 1", "feddyn") else RATES
        momenta = MOMENTA if "fedavgm" in label else [0.0]
        shares = FEW_SHARES if len(momenta) > 1 or label == "fedprox" else SHARES
        pulls = PULLS[::4] if label == "fedprox" else PULLS if label == "feddyn" else [0.0]
        self.steps = [(s * unit, p / (s * unit * local_steps)) for s, p in product(shares, pulls)]
        self.server = np.array(list(product(rates, momenta)))
        self.maps = [self.local(eta, pull) for eta, pull in self.steps]

    def local(self, eta, pull):
        """Returns two linear maps to the clients' displacements.

        The first maps the residual. The second maps the drift by which SCAFFOLD corrects the gradients: in every local
        step the correction moves the outputs by eta_local times the drift.

        Displacements are given as coefficients of the clients' samples. If the server moves by the clients' mean alone,
        the first map does not give displacements, but the movement of the outputs at server rate 1.
        """
        own, eye = np.where(self.mask, self.h, 0), np.eye(self.n)
        moved, drifted = np.zeros_like(own), np.zeros_like(own)
        for k in range(self.K):
            moved = moved + eta * (eye - own @ moved - pull * moved)
            drifted = drifted + eta * (-own @ drifted - k * eta * eye)
        return (self.h * self.weights @ moved if self.label in AVERAGED else moved), drifted

    def round(self, states, e, g, b):
        """Returns the states after a round from the states (..., size) before.

        e: the maps of the local steps (..., n, n). g, b: server rate and momentum.
        """
        r, memory = states[..., : self.n], states[..., self.n :]
        moved, drifted = e
        apply = lambda matrix, vectors: vectors @ np.swapaxes(matrix, -1, -2)  # noqa: E731
        if self.label in AVERAGED:
            return r - g * apply(moved, r)
        if self.label == "cyclic":
            move = np.zeros_like(r)
            for own in self.clients:
                met = r[..., own] - move @ self.h[:, own]
                move[..., own] = g * apply(moved[..., own, :][..., own], met)
            return r - move @ self.h
        if self.label == "scaffold":
            drift = memory @ self.h / len(self.clients) - memory @ np.where(self.mask, self.h, 0)
            walked = apply(moved, r) + apply(drifted, drift)
            move, memory = g / len(self.clients) * walked, walked / self.length
        elif self.label == "feddyn":
            walked = apply(moved, r + memory)
            memory = memory - self.pull * walked
            move = (walked - memory / self.pull) / len(self.clients)
        else:
            mean = self.weights * apply(moved, r)
            memory = b * memory + mean
            move = g * (mean + b * memory if "nesterov" in self.label else memory)
        return np.concatenate([r - move @ self.h, memory], axis=-1)

    @property
    def weights(self):
        return self.mask.sum(axis=0) / self.n

    def fewest(self, eps, below):
        """Returns the smallest number of rounds in which a stable setting reaches eps, and this setting.

        Returns None if every setting takes `below` rounds or more.
        """
        moved, drifted = (np.array(matrices) for matrices in zip(*self.maps, strict=True))
        eta, pull = np.array(self.steps).T
        g, b = self.server.T[:, None, :, None]
        self.length, self.pull = self.K * eta[:, None, None], pull[:, None, None]
        states = np.zeros((len(self.steps), len(self.server), self.size))
        states[..., : self.n] = self.y
        target = eps**2 * (self.y @ self.y)
        seen = np.zeros(states.shape[:2], bool)
        with np.errstate(all="ignore"):
            for t in range(1, below):
                states = self.round(states, (moved, drifted), g, b)
                r = states[..., : self.n]
                arrived = np.einsum("...i,...i->...", r, r) <= target
                for row, column in np.argwhere(arrived & ~seen):
                    if self.stable(row, column):
                        return t, (*self.steps[row], *self.server[column])
                seen |= arrived
        return None

    def stable(self, row, column):
        eta, pull = self.steps[row]
        length, pulls = self.length, self.pull
        self.length, self.pull = self.K * eta, pull
        g, b = self.server[column]
        columns = self.round(np.eye(self.size), self.maps[row], g, b)
        self.length, self.pull = length, pulls
        return np.abs(np.linalg.eigvals(columns.T)).max() < 1
