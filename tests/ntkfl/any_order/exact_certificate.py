"""The numbers of the certificate for training in any order, computed by independent code in ball arithmetic.

Each number is an interval of 300 bits that contains the exact value. The notation is that of docs/proofs/any_order.md:
A is the set of held pairs of neuron and sample, C the matrix of the constraints, W* the nearest point that fits all
labels, and D its distance. Here the linear system of C is solved directly, and all pairs are decided.
"""

from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat

from ntkfl.balls import ball_matrix, precision, symmetric_eigenvalues
from ntkfl.connectivity.network import TwoLayer
from ntkfl.problem import Problem, Weights

BITS = 300


@dataclass
class Exact:
    """D, the least eigenvalue of C C' and the margins sign w*.x - D kappa of all pairs outside A, as intervals.

    W* is given as intervals and as floats.
    """

    distance: arb
    smallest: arb
    margins: dict[tuple[int, int], arb]
    point: arb_mat
    high: np.ndarray
    low: np.ndarray

    def long_point(self):
        return self.high.astype(np.longdouble) + self.low.astype(np.longdouble)


def fitted(seed, *, n=3, d=4, width=36, clients=2, distance=0.01, size=1.0, near=False, unit=True, outputs=None):
    """Returns a problem and a small Gaussian network whose labels have about the size `size`.

    The labels lie at `distance` times `size` from the outputs.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    if near and n > 1:
        x[-1] = x[0] + 0.05 * rng.standard_normal(d)
    x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 if unit else rng.uniform(0.1, 9, (n, 1)))
    hidden = rng.standard_normal((width, d)) * size
    shape = (n,) if outputs is None else (n, outputs)
    direction = rng.standard_normal(shape)
    direction *= distance * size / np.linalg.norm(direction)
    owner = np.minimum(np.arange(n), clients - 1) if n >= clients else None
    if outputs is None:
        weights = Weights(hidden, rng.choice([-1.0, 1.0], width))
    else:
        weights = TwoLayer(hidden, rng.standard_normal((outputs, width)) / np.sqrt(width))
    return Problem(x, weights.outputs(x).reshape(shape) + direction, owner), weights


def readout_in_balls(weights):
    if isinstance(weights, TwoLayer):
        return [[arb(v) for v in row] for row in np.atleast_2d(weights.readout).tolist()]
    root = arb(len(weights.signs)).sqrt()
    return [[arb(s) / root for s in weights.signs.tolist()]]


def hostile(seed):
    """Returns a small problem and network that may provoke a wrong certificate; samples may occur twice."""
    rng = np.random.default_rng(seed)
    n, d, m = int(rng.integers(1, 5)), int(rng.integers(1, 5)), int(rng.choice([1, 2, 5, 16, 40]))
    x = rng.standard_normal((n, d)) * 10.0 ** rng.choice([0, 0, 0, -15, 15])
    match rng.integers(7):
        case 0:
            x = np.rint(2 * x)
        case 1:
            x[-1] = x[0] * rng.choice([1, -1, 3, 1 + 1e-9, -1 - 1e-7])
        case 2:
            x[-1] = x[0] * (1 + 1e-6 * rng.standard_normal(d))
        case 3:
            x *= 10.0 ** rng.uniform(-10, 10, (n, 1))
        case 4:
            x[rng.random((n, d)) < 0.4] = 0
    x[~x.any(axis=1), 0] = 1
    hidden = rng.standard_normal((m, d)) * 10.0 ** rng.choice([0, 0, -15, 15])
    match rng.integers(6):
        case 0:
            hidden = np.rint(hidden)
        case 1:
            hidden[rng.integers(m)] = 0
        case 2 if d > 1:
            for r, i in zip(rng.integers(m, size=3), rng.integers(n, size=3), strict=True):
                hidden[r] -= (hidden[r] @ x[i]) / (x[i] @ x[i]) * x[i]
        case 3:
            hidden[rng.random(hidden.shape) < 0.3] = rng.choice([0, 5e-324, 1e-310, 1e-160])
        case 4:
            hidden = np.repeat(hidden[:1], m, axis=0)
    if rng.random() < 0.6:
        weights = Weights(hidden, rng.choice([-1.0, 1.0], m))
    else:
        scale = 10.0 ** rng.choice([0, 0, -20, 20])
        weights = TwoLayer(hidden, rng.standard_normal((rng.integers(1, 3), m)) * scale)
    outputs = weights.outputs(x)
    size = np.abs(outputs).max() * rng.choice([0, 1e-16, 1e-12, 1e-6, 1e-3, 0.1, 1])
    y = outputs + size * rng.standard_normal(outputs.shape)
    if rng.random() < 0.1:
        y = 0 * y
    distinct, first = np.unique(x, axis=0, return_index=True)
    return Problem(x, y if rng.random() < 0.5 else y[[first[(distinct == row).all(axis=1)][0] for row in x]]), weights


def root(square):
    """Returns the root of a number that is not negative and whose interval may contain negative numbers."""
    return square.sqrt() if square > 0 else arb(0, square.upper().sqrt().upper())


def exact(problem: Problem, weights, held, patterns=None) -> Exact:
    """Returns the exact numbers for the held pairs A.

    Samples must be distinct. `patterns` (m, n) default to those of the stored weights.
    """
    with precision(BITS):
        x, w, a = problem.x, weights.hidden, readout_in_balls(weights)
        y = problem.y.reshape(problem.n, -1)
        (m, d), n, outputs = w.shape, len(x), len(a)
        z = ball_matrix(w) * ball_matrix(x).transpose()
        s = [[bool(z[r, i] >= 0) for i in range(n)] for r in range(m)] if patterns is None else patterns
        on_a = {(int(r), int(i)) for r, i in held}
        rows, target = [], []
        for i in range(n):
            for o in range(outputs):
                row = [
                    a[o][r] * arb(x[i, k]) if s[r][i] and (r, i) not in on_a else arb(0)
                    for r in range(m)
                    for k in range(d)
                ]
                rows.append(row)
                target.append(arb(y[i, o]))
        for r, i in sorted(on_a):
            rows.append([arb(x[i, k]) if q == r else arb(0) for q in range(m) for k in range(d)])
            target.append(arb(0))
        c, start = arb_mat(rows), arb_mat([[arb(v)] for v in w.reshape(-1).tolist()])
        gram = c * c.transpose()
        rest = arb_mat([[t] for t in target]) - c * start
        solution = gram.solve(rest)
        square = (rest.transpose() * solution)[0, 0]
        distance = root(square)
        point = start + c.transpose() * solution
        margins = {}
        samples = ball_matrix(x).transpose()
        for r in range(m):
            of_r = slice(r * d, (r + 1) * d)
            k = arb_mat([row[of_r] for row in rows]) * samples
            solved, values = gram.solve(k), arb_mat([point.entries()[of_r]]) * samples
            for i in range(n):
                if (r, i) in on_a:
                    continue
                kappa = root(sum((k[j, i] * solved[j, i] for j in range(len(rows))), arb(0)))
                margins[r, i] = (values[0, i] if s[r][i] else -values[0, i]) - distance * kappa
        high = np.array([float(b.mid()) for b in point.entries()])
        low = np.array([float((b - arb(h)).mid()) for b, h in zip(point.entries(), high.tolist(), strict=True)])
        return Exact(distance, symmetric_eigenvalues(gram)[0], margins, point, high.reshape(m, d), low.reshape(m, d))
