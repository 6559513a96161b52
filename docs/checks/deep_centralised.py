"""Check of deep/centralised (Jian and Liu 2025, arXiv 2508.12576, as reported), with numpy.

Reported: at infinite width, t rounds of FedAvg with K local steps on a deep network are K t steps of gradient descent
on all the data. That is, if both start from the same weights, the difference between their outputs tends to 0 like
m^(-1/2) as the width m grows.

Counterexample: the network is f = v.relu(W2 relu(W1 x)) with relu scaled by sqrt(2/m), two hidden layers of width m,
and all weights N(0, 1) and trained (the NTK parametrisation). There are two clients, each with one unit vector as
sample, at 60 degrees. FedAvg has K = 2, server step 1 and T = 3 rounds. It is compared with K T steps of gradient
descent on the mean of the clients' losses from the same weights. The kernel of the infinitely wide network is computed
in closed form: each layer maps S to k1(S), and Theta to k1(S) + Theta k0(S).

Holds: if r_0 is the residual at the start, the outputs of FedAvg and of gradient descent differ by
(M^T - (I - a H)^(K T)) r_0 + O(m^(-1/2)), where a = eta/N, M = I - (1/N) H D^-1 (I - (I - eta D)^K), and D has the
clients' blocks of H.
Exponents are slopes of the root mean square over networks. They are measured, not proved. The limit is a closed form.
"""

import sys

import numpy as np

X, Y = np.array([[1, 0], [0.5, 0.75**0.5]]), np.array([1.0, -0.5])
ETA, K, ROUNDS = 0.25, 2, 3
NETWORKS = {16: 400, 32: 384, 64: 192, 128: 96, 256: 48}  # number of networks for each width


def kernel(x):
    """The kernel Theta of a network with two hidden ReLU layers, for unit rows."""
    s = np.clip(x @ x.T, -1, 1)
    theta = s
    for _ in range(2):
        angle = np.arccos(s)
        k0, k1 = (np.pi - angle) / np.pi, (np.sin(angle) + s * (np.pi - angle)) / np.pi
        s, theta = np.clip(k1, -1, 1), k1 + theta * k0
    return theta


def outputs(weights, x):
    """f at every row of x, and the quantities that its gradient needs."""
    w1, w2, v = weights
    scale = (2 / len(v)) ** 0.5
    z1 = x @ w1.T
    h1 = scale * np.maximum(z1, 0)
    z2 = h1 @ w2.T
    h2 = scale * np.maximum(z2, 0)
    return h2 @ v, (z1, h1, z2, h2, scale)


def step(weights, x, y, eta):
    """One step of gradient descent on |f - y|^2/2."""
    w1, w2, v = weights
    f, (z1, h1, z2, h2, scale) = outputs(weights, x)
    back2 = (f - y)[:, None] * v * scale * (z2 > 0)
    back1 = (back2 @ w2) * scale * (z1 > 0)
    return w1 - eta * back1.T @ x, w2 - eta * back2.T @ h1, v - eta * h2.T @ (f - y)


def apart(width, rng):
    """r_0, and the outputs of FedAvg minus the outputs of gradient descent."""
    start = rng.standard_normal((width, 2)), rng.standard_normal((width, width)), rng.standard_normal(width)
    server = central = start
    for _ in range(ROUNDS):
        clients = []
        for c in range(2):
            local = server
            for _ in range(K):
                local = step(local, X[c : c + 1], Y[c : c + 1], ETA)
            clients.append(local)
        server = tuple((a + b) / 2 for a, b in zip(*clients, strict=True))
    for _ in range(K * ROUNDS):
        central = step(central, X, Y, ETA / 2)
    return outputs(start, X)[0] - Y, outputs(server, X)[0] - outputs(central, X)[0]


def printed(r):
    """The reported difference in the limit, which is 0."""
    return 0 * r


def holds(r):
    """The difference that holds: (M^T - (I - a H)^(K T)) r_0 for every row r_0."""
    h = kernel(X)
    d = np.diag(h)
    fed = np.eye(2) - h / 2 * ((1 - (1 - ETA * d) ** K) / d)
    central = np.eye(2) - ETA / 2 * h
    return r @ (np.linalg.matrix_power(fed, ROUNDS) - np.linalg.matrix_power(central, K * ROUNDS)).T


def main():
    rng, slopes = np.random.default_rng(0), []
    runs = [[np.array(s) for s in zip(*(apart(m, rng) for _ in range(n)), strict=True)] for m, n in NETWORKS.items()]
    for name, limit in (("printed, no difference", printed), ("what holds", holds)):
        row = [np.linalg.norm(computed - limit(r)) / np.linalg.norm(r) for r, computed in runs]
        slopes.append(np.polyfit(np.log(list(NETWORKS)), np.log(row), 1)[0])
        print(f"{name}: off by {', '.join(f'{v:.4f}' for v in row)} of |r_0| at m = {', '.join(map(str, NETWORKS))}: "
              f"exponent {slopes[-1]:.3f}")  # fmt: skip
    violated, right = slopes[0] > -0.25, -0.7 < slopes[1] < -0.35
    print(f"printed limit {'VIOLATED' if violated else 'met'}; networks come to the other limit: {right}")
    return 0 if violated and right else 1


if __name__ == "__main__":
    sys.exit(main())
