"""Every method once more, from its formulas: plain numpy, one client after the other, parameters as one flat vector.

Only who takes part and which samples a step sees come from the engine; gradients are derived by hand.
"""

from dataclasses import dataclass

import numpy as np

from ntkfl.training.federation import Federation
from ntkfl.training.local_plan import cohort, local_plan


@dataclass(frozen=True)
class World:
    """What a run is given: `gradient(w, x, y)` is that of the loss of a batch, (P,)."""

    run: Federation
    gradient: object

    def __post_init__(self):
        initial = self.run.model.initial(self.run.seed)
        object.__setattr__(self, "start", np.concatenate([value.numpy().ravel() for value in initial.values()]))
        object.__setattr__(self, "members", self.run.data.members())
        object.__setattr__(self, "sizes", np.array([len(own) for own in self.members], float))

    @property
    def population(self):
        return self.run.data.clients

    def cohort(self, number):
        return cohort(self.population, self.run.participation, self.run.seed, number)

    def shares(self, clients):
        return self.sizes[clients] / self.sizes[clients].sum()

    def batches(self, number, client):
        plan = local_plan(self.members, [client], self.run.work, self.run.seed, number, 0)
        return [self.samples(batch[real]) for batch, real in zip(plan.index[0], plan.real[0], strict=True)]

    def samples(self, rows):
        return self.run.data.x.numpy()[rows], self.run.data.y.numpy()[rows]

    def train(self, w, number, client, added=lambda w: 0.0):
        """SGD from w with momentum and weight decay, `added(w)` added to each gradient: the end, and the steps."""
        optimizer, rate, velocity = self.run.optimizer, self.run.schedule(number), 0.0
        batches = self.batches(number, client)
        for x, y in batches:
            direction = self.gradient(w, x, y) + added(w) + optimizer.weight_decay * w
            velocity = optimizer.momentum * velocity + direction
            w = w - rate * velocity
        return w, len(batches)

    def displacement(self, steps, pull=0.0):
        """a_i, by walking `steps` steps against a unit gradient with the optimizer's momentum."""
        position = velocity = 0.0
        for _ in range(steps):
            velocity = self.run.optimizer.momentum * velocity + (1 + pull * position)
            position -= velocity
        return -position


def network_gradient(w, x, y):
    """Of the mean cross-entropy of head(tanh(body(x))), 4 inputs, 5 hidden units, 3 classes."""
    body, bias, head, offset = w[:20].reshape(5, 4), w[20:25], w[25:40].reshape(3, 5), w[40:]
    hidden = np.tanh(x @ body.T + bias)
    logits = hidden @ head.T + offset
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    error = (chances - np.eye(3)[y]) / len(y)
    back = (error @ head) * (1 - hidden**2)
    return np.concatenate([(back.T @ x).ravel(), back.sum(axis=0), (error.T @ hidden).ravel(), error.sum(axis=0)])


def line_gradient(w, x, y):
    """Of the mean of (w.x - y)^2 / 2."""
    return x.T @ (x @ w - y) / len(y)


def line_sum_gradient(w, x, y):
    """Of the sum of (w.x - y)^2 / 2."""
    return x.T @ (x @ w - y)


def fed_avg(world, rounds, server_rate=1.0, mu=0.0):
    """FedAvg, and FedProx where mu is not 0."""
    w, path = world.start, []
    for t in range(rounds):
        clients = world.cohort(t)
        ends = [world.train(w, t, i, lambda v, w=w: mu * (v - w))[0] for i in clients]
        w = w + server_rate * sum(p * (end - w) for p, end in zip(world.shares(clients), ends, strict=True))
        path.append(w)
    return {"model": np.array(path)}


def fl_ntk(world, rounds, server_rate=1.0):
    w, path = world.start, []
    for t in range(rounds):
        clients = world.cohort(t)
        w = w + server_rate / len(clients) * sum(world.train(w, t, i)[0] - w for i in clients)
        path.append(w)
    return {"model": np.array(path)}


def local(world, rounds):
    own = np.tile(world.start, (world.population, 1))
    for t in range(rounds):
        for i in world.cohort(t):
            own[i] = world.train(own[i], t, i)[0]
    return {"model": np.tile(world.start, (rounds, 1)), "clients": own}


def fed_dyn(world, rounds, alpha):
    w, path = world.start, []
    g, h = np.zeros((world.population, len(w))), np.zeros_like(w)
    for t in range(rounds):
        clients, ends = world.cohort(t), []
        for i in clients:
            end, _ = world.train(w, t, i, lambda v, w=w, i=i: -g[i] + alpha * (v - w))
            g[i] = g[i] - alpha * (end - w)
            ends.append(end)
        h = h - alpha / world.population * sum(end - w for end in ends)
        w = sum(ends) / len(ends) - h / alpha
        path.append(w)
    return {"model": np.array(path), "clients": g, "server": h}


def scaffold(world, rounds, option="II", server_rate=1.0):
    w, path = world.start, []
    c_i, c = np.zeros((world.population, len(w))), np.zeros_like(w)
    for t in range(rounds):
        clients, moves, changes = world.cohort(t), [], []
        for i in clients:
            end, steps = world.train(w, t, i, lambda v, i=i, c=c: c - c_i[i])
            if option == "I":
                new = world.gradient(w, *world.samples(world.members[i]))
            else:
                new = c_i[i] - c + (w - end) / (world.displacement(steps) * world.run.schedule(t))
            changes.append(new - c_i[i])
            moves.append(end - w)
            c_i[i] = new
        w = w + server_rate * sum(moves) / len(clients)
        c = c + sum(changes) / world.population
        path.append(w)
    return {"model": np.array(path), "clients": c_i, "server": c}


def fed_nova(world, rounds, mu=0.0):
    w, path = world.start, []
    for t in range(rounds):
        clients, rate = world.cohort(t), world.run.schedule(t)
        steps, directions = 0.0, 0.0
        for p, i in zip(world.shares(clients), clients, strict=True):
            end, taken = world.train(w, t, i, lambda v, w=w: mu * (v - w))
            a = world.displacement(taken, rate * mu)
            directions = directions + p * (w - end) / (rate * a)
            steps = steps + p * a
        w = w - rate * steps * directions
        path.append(w)
    return {"model": np.array(path)}


def fed_adam(world, rounds, server_rate, first, second, tau, yogi=False):
    w, path = world.start, []
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t in range(rounds):
        clients = world.cohort(t)
        d = sum(p * (world.train(w, t, i)[0] - w) for p, i in zip(world.shares(clients), clients, strict=True))
        m = first * m + (1 - first) * d
        v = v - (1 - second) * d**2 * np.sign(v - d**2) if yogi else second * v + (1 - second) * d**2
        w = w + server_rate * m / (np.sqrt(v) + tau)
        path.append(w)
    return {"model": np.array(path)}


def fed_gma(world, rounds, threshold, mask="soft", server_rate=1.0):
    w, path = world.start, []
    for t in range(rounds):
        clients = world.cohort(t)
        moves = np.array([world.train(w, t, i)[0] - w for i in clients])
        rising, falling = (moves > 0).sum(axis=0), (moves < 0).sum(axis=0)
        agreement = abs(rising - falling) / len(clients)
        below = 0 if mask == "hard" else agreement
        w = w + server_rate * np.where(agreement >= threshold, 1, below) * (world.shares(clients) @ moves)
        path.append(w)
    return {"model": np.array(path)}


def fed_gma_released(world, rounds, threshold, overwritten=True):
    """Literally: the sum over clients replaces the model received while it runs (`overwritten`), or it does not."""
    w, path = world.start, []
    for t in range(rounds):
        clients = world.cohort(t)
        ends = np.array([world.train(w, t, i)[0] for i in clients])
        counter = np.sign(ends - w).sum(axis=0)
        reference, total = w, world.shares(clients) @ ends
        for end in ends:
            move = end - reference
            agrees = ((move > 0) == (counter > 0)) & (abs(counter) > threshold * len(clients))
            total = total - 1e-4 * np.where(agrees, move, 0) / len(clients)
            reference = total if overwritten else w
        w = total
        path.append(w)
    return {"model": np.array(path)}
