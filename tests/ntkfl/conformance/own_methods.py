"""An independent implementation of seventeen methods, tensor by tensor, written from the papers alone."""

import numpy as np


def run(case):
    if case.method not in SERVERS:
        raise NotImplementedError(f"no {case.method} here")
    if case.clip is not None and case.method != "diloco-adamw":
        raise NotImplementedError("no clipping here")
    server = SERVERS[case.method](case)
    for number in range(case.rounds):
        server.round(number)
        yield server.result()


def zeros(model):
    return {name: np.zeros_like(value) for name, value in model.items()}


def add(first, second, scale=1.0):
    return {name: first[name] + scale * second[name] for name in first}


class Server:
    """FedAvg, the base class of the other methods."""

    def __init__(self, case):
        self.case = case
        self.model = case.tensors(case.start.copy())
        for name, value in case.options.items():
            setattr(self, name, value)

    def result(self):
        return dict(self.model)

    def round(self, number):
        self.number, self.cohort = number, self.case.cohort(number)
        total = sum(self.count(client) for client in self.cohort)
        update = zeros(self.model)
        for client in self.cohort:
            local = self.fit(client)
            update = add(update, add(local, self.model, -1.0), self.count(client) / total)
        self.apply(update)

    def count(self, client):
        return self.case.sizes[client]

    def apply(self, update):
        self.model = add(self.model, update, self.server_rate)

    def fit(self, client):
        local = dict(self.model)
        buffer = zeros(local)
        for batch in self.case.batches(self.number, client):
            grad = self.case.tensors(self.case.gradient(self.case.flat(local), batch.x, batch.y))
            here = dict(local)
            for name in here:
                step = grad[name] + self.extra(client, name, here)
                step = step + self.case.weight_decay * local[name]
                buffer[name] = self.case.momentum * buffer[name] + step
                local[name] = local[name] - self.case.rates[self.number] * buffer[name]
        return local

    def extra(self, client, name, local):
        return 0.0


class Prox(Server):
    def extra(self, client, name, local):
        return self.mu * (local[name] - self.model[name])


class Momentum(Server):
    def __init__(self, case):
        super().__init__(case)
        self.velocity = zeros(self.model)

    def apply(self, update):
        self.velocity = add(update, self.velocity, self.momentum)
        ahead = add(update, self.velocity, self.momentum) if self.nesterov else self.velocity
        self.model = add(self.model, ahead, self.server_rate)


class Adam(Server):
    def __init__(self, case):
        super().__init__(case)
        self.mean, self.square = zeros(self.model), zeros(self.model)

    def apply(self, update):
        for name, delta in update.items():
            self.mean[name] = self.first * self.mean[name] + (1 - self.first) * delta
            self.square[name] = self.second * self.square[name] + (1 - self.second) * delta * delta
            scale = np.sqrt(self.square[name]) + self.tau
            self.model[name] = self.model[name] + self.server_rate * self.mean[name] / scale


class Scaffold(Server):
    def __init__(self, case):
        super().__init__(case)
        self.control = zeros(self.model)
        self.own = [zeros(self.model) for _ in range(case.population)]

    def count(self, client):
        return 1

    def extra(self, client, name, local):
        return self.control[name] - self.own[client][name]

    def round(self, number):
        before = self.model
        self.change = zeros(self.model)
        super().round(number)
        assert before is not self.model
        self.control = add(self.control, self.change, 1 / self.case.population)

    def fit(self, client):
        local = super().fit(client)
        if self.option == "I":
            x, y = self.case.samples(client)
            fresh = self.case.tensors(self.case.gradient(self.case.flat(self.model), x, y))
        else:
            moved = add(self.model, local, -1.0)
            fresh = add(add(self.own[client], self.control, -1.0), moved, 1 / self.length(client))
        self.change = add(self.change, add(fresh, self.own[client], -1.0))
        self.own[client] = fresh
        return local

    def length(self, client):
        """Returns the rate times the sum of 1 + m + ... + m^(k-1) over the steps k = 1, 2, ..., where m is the
        momentum.
        """
        m = self.case.momentum
        steps = len(self.case.batches(self.number, client))
        return self.case.rates[self.number] * sum(m**j for k in range(steps) for j in range(k + 1))


class Dyn(Server):
    def __init__(self, case):
        super().__init__(case)
        self.dual = [zeros(self.model) for _ in range(case.population)]
        self.h = zeros(self.model)

    def count(self, client):
        return 1

    def extra(self, client, name, local):
        return self.alpha * (local[name] - self.model[name]) - self.dual[client][name]

    def fit(self, client):
        local = super().fit(client)
        self.dual[client] = add(self.dual[client], add(local, self.model, -1.0), -self.alpha)
        return local

    def apply(self, update):
        self.h = add(self.h, update, -self.alpha * len(self.cohort) / self.case.population)
        self.model = add(add(self.model, update), self.h, -1 / self.alpha)


class Nova(Server):
    def round(self, number):
        self.taus = []
        super().round(number)

    def fit(self, client):
        local = super().fit(client)
        weight = self.count(client) / sum(self.case.sizes[c] for c in self.cohort)
        self.taus.append(weight * self.walked(client))
        return add(self.model, add(local, self.model, -1.0), 1 / self.walked(client))

    def walked(self, client):
        """Returns the distance that a client moves under a constant gradient of 1 and the proximal term, divided by the
        rate.
        """
        place, speed = 0.0, 0.0
        for _ in self.case.batches(self.number, client):
            speed = self.case.momentum * speed + 1 - self.case.rates[self.number] * self.mu * place
            place += speed
        return place

    def extra(self, client, name, local):
        return self.mu * (local[name] - self.model[name])

    def apply(self, update):
        self.model = add(self.model, update, sum(self.taus))


class Adagrad(Server):
    def __init__(self, case):
        super().__init__(case)
        self.server_rate, self.scaled = 1.0, self.server_rate
        self.direction = zeros(self.model)
        self.sums = {name: np.full_like(value, self.tau * self.tau) for name, value in self.model.items()}

    def apply(self, update):
        for name, delta in update.items():
            self.sums[name] += delta * delta
            self.direction[name] = delta + self.first * (self.direction[name] - delta)
            root = np.sqrt(self.sums[name])
            self.model[name] = self.model[name] + self.scaled * self.direction[name] / (root + self.tau)


class Outer(Server):
    """DiLoCo; the server steps as torch's SGD(nesterov=True) on the difference of the model and the workers' mean."""

    def __init__(self, case):
        super().__init__(case)
        self.outer = zeros(self.model)

    def count(self, client):
        return 1

    def apply(self, update):
        for name, value in update.items():
            gradient = -value
            self.outer[name] = self.momentum * self.outer[name] + gradient
            nesterov = gradient + self.momentum * self.outer[name]
            self.model[name] = self.model[name] - self.server_rate * nesterov


class OuterAdamW(Outer):
    """DiLoCo with AdamW's inner steps as torch writes them, one optimizer for each worker."""

    def __init__(self, case):
        super().__init__(case)
        self.workers = {}

    def fit(self, client):
        local, rate = dict(self.model), self.case.rates[self.number]
        own = self.workers.setdefault(client, {"step": 0, "mean": zeros(local), "square": zeros(local)})
        for few in self.case.batches(self.number, client):
            grad = self.case.tensors(self.case.gradient(self.case.flat(local), few.x, few.y))
            if self.case.clip is not None:
                length = np.sqrt(sum(float((part**2).sum()) for part in grad.values()))
                grad = {name: part * min(1.0, self.case.clip / length) for name, part in grad.items()}
            own["step"] += 1
            for name, part in grad.items():
                local[name] = local[name] * (1 - rate * self.case.weight_decay)
                own["mean"][name] = own["mean"][name] + (1 - self.first) * (part - own["mean"][name])
                own["square"][name] = self.second * own["square"][name] + (1 - self.second) * part * part
                root = np.sqrt(own["square"][name]) / (1 - self.second ** own["step"]) ** 0.5 + self.epsilon
                local[name] = local[name] - rate / (1 - self.first ** own["step"]) * own["mean"][name] / root
        return local


class Private(Server):
    """DP-FedAvg; noise is added to the sum of the clipped updates, and the noisy sum is divided by q W.

    q is the share of the clients that take part, and W is the sum of the weights of all clients.
    """

    def round(self, number):
        self.number, self.cohort = number, self.case.cohort(number)
        population = range(self.case.population)
        mean_weight = sum(min(1.0, self.case.sizes[k] / self.cap) for k in population) / self.case.population
        spread = self.noise * self.bound
        released = self.case.tensors(spread * self.case.noise[number])
        for client in self.cohort:
            update = add(self.fit(client), self.model, -1.0)
            length = np.sqrt(sum(float((part**2).sum()) for part in update.values()))
            shrunk = min(1.0, self.bound / length) if length > 0 else 1.0
            released = add(released, update, shrunk * min(1.0, self.case.sizes[client] / self.cap))
        self.model = add(self.model, released, 1 / (len(self.cohort) * mean_weight))


class Sum(Server):
    """Task arithmetic."""

    def round(self, number):
        self.number, self.cohort = number, self.case.cohort(number)
        ends = [self.fit(client) for client in self.cohort]
        self.model = {n: w + self.scale * sum(end[n] - w for end in ends) for n, w in self.model.items()}


class Ties(Server):
    """TIES merging, computed coordinate by coordinate in plain numbers."""

    def round(self, number):
        self.number, self.cohort = number, self.case.cohort(number)
        received = self.case.flat(self.model)
        vectors = [self.trimmed((self.case.flat(self.fit(client)) - received).tolist()) for client in self.cohort]
        merged = [self.coordinate(values) for values in zip(*vectors, strict=True)]
        self.model = self.case.tensors(received + self.scale * np.array(merged))

    def trimmed(self, vector):
        order = sorted(range(len(vector)), key=lambda k: -abs(vector[k]))
        kept = set(order[: int(self.density * len(vector))])
        return [value if k in kept else 0.0 for k, value in enumerate(vector)]

    def coordinate(self, values):
        votes = values
        positive = sum(votes) > 0
        chosen = [k for k, value in enumerate(values) if value != 0 and (value > 0) == positive]
        weights = [self.case.sizes[self.cohort[k]] if self.weighted else 1 for k in chosen]
        return sum(w * values[k] for w, k in zip(weights, chosen, strict=True)) / sum(weights) if chosen else 0.0


class Adapters(Server):
    """Federated LoRA that averages the factors, which is FedIT."""

    def result(self):
        return {"weight": self.model["base.weight"] + self.model["lora_B"] @ self.model["lora_A"]}

    def round(self, number):
        self.number, self.cohort = number, self.case.cohort(number)
        whole = sum(self.count(client) for client in self.cohort)
        self.share = [self.count(client) / whole for client in self.cohort]
        self.ends = [self.fit(client) for client in self.cohort]
        self.merge({name: self.mean([end[name] for end in self.ends]) for name in self.model})

    def mean(self, values):
        return np.tensordot(self.share, np.array(values), 1)

    def product(self):
        return self.mean([end["lora_B"] @ end["lora_A"] for end in self.ends])

    def merge(self, means):
        self.model = means


class Exact(Adapters):
    def merge(self, means):
        residual = self.product() - means["lora_B"] @ means["lora_A"]
        self.model = means | {"base.weight": means["base.weight"] + residual}


class Stacked(Adapters):
    def merge(self, means):
        first = self.case.tensors(self.case.start)
        self.model = first | {"base.weight": self.model["base.weight"] + self.product()}


class Projected(Adapters):
    def merge(self, means):
        """Replaces the factors by the leading singular vectors of the mean product.

        They are computed from the eigenvectors of the product's Gram matrix.
        """
        product, rank = self.product(), len(self.model["lora_A"])
        values, vectors = np.linalg.eigh(product.T @ product)
        keep = vectors[:, np.argsort(values)[::-1][:rank]]
        self.model = self.model | {"lora_B": product @ keep, "lora_A": keep.T}


SERVERS = {
    "task-arithmetic": Sum,
    "ties": Ties,
    "fedit": Adapters,
    "fedex-lora": Exact,
    "flora": Stacked,
    "flexlora": Projected,
    "fedadagrad": Adagrad,
    "diloco": Outer,
    "diloco-adamw": OuterAdamW,
    "dp-fedavg": Private,
    "fedavg": Server,
    "fedprox": Prox,
    "fedavgm": Momentum,
    "fedadam": Adam,
    "scaffold": Scaffold,
    "feddyn": Dyn,
    "fednova": Nova,
}
