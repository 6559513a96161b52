"""The methods with losses, gradients or servers of their own once more, from their formulas, a client at a time.

Plain torch with autograd, on the tanh network of `tiny_federations`. Only who takes part, which samples a step sees and
the uniform draws come from the engine.
"""

import torch

from ntkfl.training.local_plan import cohort, local_plan

HEAD = "head.weight", "head.bias"


def features(w, x):
    return torch.tanh(x @ w["body.0.weight"].T + w["body.0.bias"])


def logits(w, x):
    return features(w, x) @ w["head.weight"].T + w["head.bias"]


def nll(scores, y):
    """The mean of -log(e^(s_y) / sum_c e^(s_c))."""
    own = torch.stack([row[label] for row, label in zip(scores, y, strict=True)])
    return (-own + scores.exp().sum(1).log()).mean()


def plus(w, v, scale=1.0):
    return {name: w[name] + scale * v[name] for name in w}


def gradient(loss, w):
    leaf = {name: value.clone().requires_grad_() for name, value in w.items()}
    found = torch.autograd.grad(loss(leaf), list(leaf.values()), allow_unused=True)
    return {name: torch.zeros_like(w[name]) if g is None else g for name, g in zip(w, found, strict=True)}


def sharp(rho, eta=None):
    """The gradient at w + rho T^2 g / |T g|."""

    def of(loss, w):
        g, total = gradient(loss, w), 0.0
        scales = {}
        for name in w:
            adapts = eta is not None and name.endswith("weight")
            scales[name] = w[name].abs() + eta if adapts else torch.ones_like(w[name])
            total += float(((scales[name] * g[name]) ** 2).sum())
        return gradient(loss, {name: w[name] + rho * scales[name] ** 2 * g[name] / total**0.5 for name in w})

    return of


def samples(run, rows):
    return run.data.x[rows], run.data.y[rows]


def counts(run, client):
    y = run.data.y[run.data.members()[client]].tolist()
    return [y.count(c) for c in range(3)]


def batches(run, number, client):
    """x, y, draws and whether a pass ends, step by step."""
    plan = local_plan(run.data.members(), [client], run.work, run.seed, number, run.method.draws)
    for s in range(plan.active.shape[1]):
        yield *samples(run, plan.index[0, s][plan.real[0, s]]), plan.draws[0, s], plan.ends_epoch[0, s]


def descend(run, w, number, client, losses, direction=gradient, after=None):
    """SGD with momentum and weight decay; losses(x, y, draws) are stepped on in turn, then after(before, w, batch)."""
    velocity, rate = {name: torch.zeros_like(value) for name, value in w.items()}, run.schedule(number)
    for batch in batches(run, number, client):
        before = w
        for loss in losses(*batch[:3]):
            g = plus(direction(loss, w), w, run.optimizer.weight_decay)
            velocity = {name: run.optimizer.momentum * velocity[name] + g[name] for name in w}
            w = plus(w, velocity, -rate)
        if after:
            w = after(before, w, *batch)
    return w


def rounds(run, count, train):
    """The server's model after each round, with the clients' ends weighted by their sizes; train(w, number, client)."""
    w, path, sizes = run.model.initial(run.seed), [], [len(own) for own in run.data.members()]
    for t in range(count):
        clients = cohort(run.data.clients, run.participation, run.seed, t)
        ends = [train(w, t, i) for i in clients]
        total = sum(sizes[i] for i in clients)
        w = {n: sum(sizes[i] / total * end[n] for i, end in zip(clients, ends, strict=True)) for n in w}
        path.append(w)
    return path


def moon(run, count, mu, temperature, released=False):
    previous = {}

    def train(w, t, i):
        old = previous.setdefault(i, w)

        def loss(v, x, y):
            def similarity(other):
                a, b = features(v, x), features(other, x)
                return (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1))

            to_global, to_old = (similarity(o) / temperature for o in (w, old))
            contrast = -(to_global.exp() / (to_global.exp() + to_old.exp())).log().mean()
            return nll(logits(v, x), y) + mu * contrast

        end = descend(run, w, t, i, lambda x, y, _: [lambda v: loss(v, x, y)])
        if not released:
            previous[i] = end
        return end

    return rounds(run, count, train), previous


def fed_rod(run, count, gamma):
    heads = {}

    def train(w, t, i):
        head = heads.setdefault(i, {name: w[name] for name in HEAD})
        shift = torch.tensor([max(n, 1) for n in counts(run, i)], dtype=torch.float64).log()

        def personal(before, after, x, y, draws, ends):
            own = heads[i]
            z, shared = features(before, x), logits(before, x)
            step = gradient(lambda h: nll(shared + z @ h["head.weight"].T + h["head.bias"], y), own)
            heads[i] = plus(own, step, -run.schedule(t))
            return after

        heads[i] = head
        return descend(run, w, t, i, lambda x, y, _: [lambda v: nll(logits(v, x) + gamma * shift, y)], after=personal)

    return rounds(run, count, train), heads


def calibrated_nll(scores, y, sizes, tau):
    """The softmax runs over the classes that the client has, and over no other column."""
    if tau == 0:
        return nll(scores, y)
    present = [c for c in range(3) if sizes[c]]
    columns = torch.stack([scores[:, c] - tau * sizes[c] ** -0.25 for c in present], 1)
    return nll(columns, [present.index(label) for label in y.tolist()])


def fed_lc(run, count, tau):
    def train(w, t, i):
        own = counts(run, i)
        return descend(run, w, t, i, lambda x, y, _: [lambda v: calibrated_nll(logits(v, x), y, own, tau)])

    return rounds(run, count, train), None


def fed_sam(run, count, rho, eta=None):
    def train(w, t, i):
        return descend(run, w, t, i, lambda x, y, _: [lambda v: nll(logits(v, x), y)], sharp(rho, eta))

    return rounds(run, count, train), None


def fed_fa(run, count, strength, momentum, calibration_rate, calibrate_from=0, present_only=False, released=False):
    anchors, total, weight = torch.eye(3, 5, dtype=torch.float64), 0.0, 0.0
    clock = -1

    def train(w, t, i):
        nonlocal anchors, total, weight, clock
        if t != clock:  # the last round's uploads become the anchors
            if clock >= 0:
                anchors = torch.stack([total[c] / weight[c] if weight[c] else anchors[c] for c in range(3)])
            total, weight, clock = torch.zeros(3, 5, dtype=torch.float64), [0.0] * 3, t
        own, seen, sizes = anchors.clone(), [], counts(run, i)
        moments = {n: (torch.zeros_like(w[n]), torch.zeros_like(w[n])) for n in HEAD}

        def loss(v, x, y):
            z = features(v, x)
            pull = sum(((z[y == c] - own[c]) ** 2).sum() / (y == c).sum() for c in range(3) if (y == c).any()) / 3
            return nll(logits(v, x), y) + (strength * pull if t else 0)

        def after(before, w, x, y, draws, ends):
            nonlocal own, seen, moments
            seen.append((features(before, x), y))
            if calibration_rate and t >= calibrate_from:
                g = gradient(lambda v: nll(own @ v["head.weight"].T + v["head.bias"], torch.arange(3)), w)
                k = after.steps = after.steps + 1
                w = dict(w)
                for n in HEAD:
                    first = 0.9 * moments[n][0] + 0.1 * g[n]
                    second = 0.999 * moments[n][1] + 0.001 * g[n] ** 2
                    moments[n] = first, second
                    w[n] = w[n] - calibration_rate * (first / (1 - 0.9**k)) / ((second / (1 - 0.999**k)).sqrt() + 1e-8)
            if ends:
                for c in range(3):
                    if not sizes[c]:
                        continue
                    if released:
                        mean = sum(z[y == c].mean(0) for z, y in seen if (y == c).any()) / len(seen)
                    else:
                        mean = torch.cat([z[y == c] for z, y in seen]).mean(0)
                    own[c] = momentum * own[c] + (1 - momentum) * mean
                seen = []
            return w

        after.steps = 0
        end = descend(run, w, t, i, lambda x, y, _: [lambda v: loss(v, x, y)], after=after)
        for c in range(3):
            if sizes[c] or not present_only:
                total[c] += sum(sizes) * own[c]
                weight[c] += sum(sizes)
        return end

    path = rounds(run, count, train)
    return path, torch.stack([total[c] / weight[c] if weight[c] else anchors[c] for c in range(3)])


def fed_gucci(run, count, beta, anchors, alpha, step, own_history=False, tau=0.0, rho=0.0, uncleared=False):
    received, of_client = [], {}

    def direction(loss, w):
        """Of the released code: an anchor's gradient at w is still there when that of the second pass is added."""
        found = sharp(rho)(loss, w) if rho else gradient(loss, w)
        return plus(found, gradient(loss, w)) if uncleared and loss.__name__ == "along" else found

    def train(w, t, i):
        if len(received) == t:
            received.append(w)
        of_client.setdefault(i, []).append(w)
        held = (of_client[i] if own_history else received)[: -anchors - 1 : -1]
        sizes = counts(run, i)

        def losses(x, y, draws):
            def plain(v):
                return calibrated_nll(logits(v, x), y, sizes, tau)

            def term(k):
                nodes = {"uniform": draws[k : k + 1], "half": [0.5], "gauss2": [0.5 - 12**-0.5, 0.5 + 12**-0.5]}[alpha]

                def along(v):
                    between = [{n: a * v[n] + (1 - a) * held[k][n] for n in v} for a in nodes]
                    return beta / len(held) * sum(plain(v) for v in between) / len(between)

                return along

            terms = [term(k) for k in range(len(held))]
            if step == "sequential":
                return [plain, *terms]
            return [lambda v: plain(v) + sum(one(v) for one in terms)]

        return descend(run, w, t, i, losses, direction)

    return rounds(run, count, train), received
