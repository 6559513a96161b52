"""Reference implementations of methods that have a loss, gradient or server of their own, written from their formulas.

They use torch with autograd, on the tanh network of the cases, and train one client after the other. w is a dictionary
of tensors. `run` takes a case. Nothing of this project is imported. Every step has a line of its own, so that
`ntkfl.conformance.variants` can change one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from ntkfl.conformance.conformance_case import ConformanceCase

W = dict[str, Tensor]
Loss = Callable[[W], Tensor]
States = Iterator[dict[str, np.ndarray]]
HEAD = "head.weight", "head.bias"


def run(case: ConformanceCase) -> States:
    """Yields the tensors of the model by name, and the method's other state, after every round."""
    for kept in LOOPS[case.method](case, **case.options):
        yield case.tensors(kept["model"]) | {name: value for name, value in kept.items() if name != "model"}


def flat(w: Mapping[str, Tensor]) -> np.ndarray:
    """All parameters of the model as one vector."""
    return np.concatenate([value.numpy().ravel() for value in w.values()])


def start(case: ConformanceCase) -> W:
    """The start model."""
    return {name: torch.tensor(value) for name, value in case.tensors(case.start).items()}


def features(w: W, x: Tensor) -> Tensor:
    """The input of the head, (b, k)."""
    return torch.tanh(x @ w["body.0.weight"].T + w["body.0.bias"])


def on_head(w: W, z: Tensor) -> Tensor:
    """The logits of features, (b, C)."""
    return z @ w["head.weight"].T + w["head.bias"]


def logits(w: W, x: Tensor) -> Tensor:
    """The logits of inputs, (b, C)."""
    return on_head(w, features(w, x))


def nll(scores: Tensor, y: Any) -> Tensor:
    """The mean of -log(e^(s_y) / sum_c e^(s_c))."""
    own = torch.stack([row[label] for row, label in zip(scores, y, strict=True)])
    return (-own + scores.exp().sum(1).log()).mean()


def plus(w: W, v: W, scale: float = 1.0) -> W:
    """w + scale v."""
    return {name: w[name] + scale * v[name] for name in w}


def gradient(loss: Loss, w: W) -> W:
    """The gradient of the loss at w."""
    leaf = {name: value.clone().requires_grad_() for name, value in w.items()}
    gradients = torch.autograd.grad(loss(leaf), list(leaf.values()), allow_unused=True)
    return {name: torch.zeros_like(w[name]) if g is None else g for name, g in zip(w, gradients, strict=True)}


def sharp(rho: float, eta: float | None = None) -> Callable[[Loss, W], W]:
    """The gradient at w + rho T^2 g / |T g|, where g is the gradient at w.

    Without eta, T is 1. With eta, T is |w| + eta for tensors named weight, and 1 for other tensors.
    """

    def of(loss: Loss, w: W) -> W:
        g = gradient(loss, w)
        scales = {name: scale(name, value) for name, value in w.items()}
        total = sum(float(((scales[name] * g[name]) ** 2).sum()) for name in w) ** 0.5
        return gradient(loss, {name: w[name] + rho * scales[name] ** 2 * g[name] / total for name in w})

    def scale(name: str, value: Tensor) -> Tensor:
        if eta is None or not name.endswith("weight"):
            return torch.ones_like(value)
        return value.abs() + eta

    return of


def counts(case: ConformanceCase, client: int) -> list[int]:
    """The number of samples of each class that a client has."""
    y = case.samples(client)[1].tolist()
    return [y.count(c) for c in range(3)]


def descend(
    case: ConformanceCase,
    w: W,
    t: int,
    i: int,
    losses: Any,
    direction: Callable[[Loss, W], W] = gradient,
    after: Any = None,
) -> W:
    """SGD with momentum and weight decay.

    For each batch, the function takes a step on each of losses(x, y, draws), and then calls after(before, w, batch).
    """
    velocity, rate = {name: torch.zeros_like(value) for name, value in w.items()}, case.rates[t]
    for x, y, draws, ends in case.batches(t, i):
        before, batch = w, (torch.tensor(x), torch.tensor(y), draws, ends)
        for loss in losses(*batch[:3]):
            g = direction(loss, w)
            g = plus(g, w, case.weight_decay)
            velocity = {name: case.momentum * velocity[name] + g[name] for name in w}
            w = plus(w, velocity, -rate)
        if after:
            w = after(before, w, *batch)
    return w


def rounds(case: ConformanceCase, train: Callable[[W, int, int], W]) -> Iterator[W]:
    """The server's model after each round: the mean, weighted by size, of the models train(w, round, client)."""
    w = start(case)
    for t in range(case.rounds):
        clients = case.cohort(t)
        ends = [train(w, t, i) for i in clients]
        total = sum(case.sizes[i] for i in clients)
        shares = [case.sizes[i] / total for i in clients]
        w = {n: weighted(shares, [end[n] for end in ends]) for n in w}
        yield w


def weighted(shares: list[float], tensors: list[Tensor]) -> Tensor:
    """The sum of the tensors, each times its share."""
    return torch.stack([share * tensor for share, tensor in zip(shares, tensors, strict=True)]).sum(0)


def moon(case: ConformanceCase, mu: float = 1.0, temperature: float = 0.5, released: bool = False) -> States:
    """MOON, Li, He, Song 2021."""
    previous: dict[int, W] = {}

    def train(w: W, t: int, i: int) -> W:
        old = previous.setdefault(i, w)

        def loss(v: W, x: Tensor, y: Tensor) -> Tensor:
            def similarity(other: W) -> Tensor:
                a, b = features(v, x), features(other, x)
                return (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1))

            to_global = similarity(w) / temperature
            to_old = similarity(old) / temperature
            contrast = -(to_global.exp() / (to_global.exp() + to_old.exp())).log().mean()
            return nll(logits(v, x), y) + mu * contrast

        end = descend(case, w, t, i, lambda x, y, _: [lambda v: loss(v, x, y)])
        if not released:
            previous[i] = end
        return end

    for w in rounds(case, train):
        yield {"model": flat(w), "client_previous": clients_rows(case, previous)}


def fed_rod(case: ConformanceCase, gamma: float = 1.0) -> States:
    """FedRoD, Chen & Chao 2022."""
    heads: dict[int, W] = {}

    def train(w: W, t: int, i: int) -> W:
        heads.setdefault(i, {name: w[name] for name in HEAD})
        shift = torch.tensor([max(n, 1) for n in counts(case, i)], dtype=w[HEAD[0]].dtype).log()

        def personal(before: W, after: W, x: Tensor, y: Tensor, draws: Any, ends: bool) -> W:
            own = heads[i]
            z, shared = features(before, x), logits(before, x)
            step = gradient(lambda h: nll(shared + on_head(h, z), y), own)
            heads[i] = plus(own, step, -case.rates[t])
            return after

        return descend(case, w, t, i, lambda x, y, _: [lambda v: nll(logits(v, x) + gamma * shift, y)], after=personal)

    for w in rounds(case, train):
        yield {"model": flat(w), "client_heads": clients_rows(case, heads)}


def clients_rows(case: ConformanceCase, kept: dict[int, W]) -> np.ndarray:
    """The states of all clients, a row for each. Clients that have not taken part have zeros."""
    flats = {i: flat(value) for i, value in kept.items()}
    nothing = np.zeros_like(next(iter(flats.values())))
    return np.stack([flats.get(i, nothing) for i in range(case.population)])


def calibrated_nll(scores: Tensor, y: Any, sizes: list[int], tau: float) -> Tensor:
    """The negative log-likelihood, calibrated by class sizes, with a softmax over the classes that the client has."""
    if tau == 0:
        return nll(scores, y)
    present = [c for c in range(3) if sizes[c]]
    columns = torch.stack([scores[:, c] - tau * sizes[c] ** -0.25 for c in present], 1)
    return nll(columns, [present.index(label) for label in y.tolist()])


def fed_lc(case: ConformanceCase, tau: float = 0.1) -> States:
    """FedLC, Zhang et al. 2022."""

    def train(w: W, t: int, i: int) -> W:
        own = counts(case, i)
        return descend(case, w, t, i, lambda x, y, _: [lambda v: calibrated_nll(logits(v, x), y, own, tau)])

    for w in rounds(case, train):
        yield {"model": flat(w)}


def fed_sam(case: ConformanceCase, rho: float = 0.05, eta: float | None = None) -> States:
    """FedSAM, Qu et al. 2022; with eta FedASAM, Caldarola et al. 2022."""

    def train(w: W, t: int, i: int) -> W:
        return descend(case, w, t, i, lambda x, y, _: [lambda v: nll(logits(v, x), y)], sharp(rho, eta))

    for w in rounds(case, train):
        yield {"model": flat(w)}


def fed_fa(
    case: ConformanceCase,
    strength: float = 0.1,
    anchor_momentum: float = 0.5,
    calibration_rate: float = 1e-3,
    calibrate_from: int = 0,
    anchor_avg: str = "size",
    released: bool = False,
) -> States:
    """FedFA, Zhou et al. 2023. The anchors (C, k) are at first the unit vectors of the axes."""
    first = start(case)["body.0.bias"]
    anchors = torch.eye(3, len(first), dtype=first.dtype)
    uploads: list[tuple[int, list[int], Tensor]] = []

    def train(w: W, t: int, i: int) -> W:
        own, sizes = anchors.clone(), counts(case, i)
        seen: list[tuple[Tensor, Tensor]] = []
        moments = {n: (torch.zeros_like(w[n]), torch.zeros_like(w[n])) for n in HEAD}
        steps = 0

        def loss(v: W, x: Tensor, y: Tensor) -> Tensor:
            z = features(v, x)
            pull = sum(((z[y == c] - own[c]) ** 2).sum() / (y == c).sum() for c in range(3) if (y == c).any()) / 3
            return nll(logits(v, x), y) + (strength * pull if t else 0)

        def after(before: W, w: W, x: Tensor, y: Tensor, draws: Any, ends: bool) -> W:
            nonlocal steps
            seen.append((features(before, x), y))
            if calibration_rate and t >= calibrate_from:
                steps += 1
                w = calibrated(w)
            if ends:
                for c in (c for c in range(3) if sizes[c]):
                    own[c] = anchor_momentum * own[c] + (1 - anchor_momentum) * class_mean(c)
                seen.clear()
            return w

        def calibrated(w: W) -> W:
            g = gradient(lambda v: nll(on_head(v, own), torch.arange(3)), w)
            w = dict(w)
            for n in HEAD:
                m = 0.9 * moments[n][0] + 0.1 * g[n]
                v = 0.999 * moments[n][1] + 0.001 * g[n] ** 2
                moments[n] = m, v
                w[n] = w[n] - calibration_rate * (m / (1 - 0.9**steps)) / ((v / (1 - 0.999**steps)).sqrt() + 1e-8)
            return w

        def class_mean(c: int) -> Tensor:
            if released:
                return torch.stack([z[y == c].mean(0) for z, y in seen if (y == c).any()]).sum(0) / len(seen)
            return torch.cat([z[y == c] for z, y in seen]).mean(0)

        end = descend(case, w, t, i, lambda x, y, _: [lambda v: loss(v, x, y)], after=after)
        uploads.append((case.sizes[i], sizes, own))
        return end

    for w in rounds(case, train):
        for c in range(3):
            counted = [(n, own[c]) for n, sizes, own in uploads if sizes[c] or anchor_avg == "size"]
            if counted:
                anchors[c] = sum(n * row for n, row in counted) / sum(n for n, _ in counted)
        uploads.clear()
        yield {"model": flat(w), "anchors": anchors.numpy().copy()}


def fed_gucci(
    case: ConformanceCase,
    beta: float = 0.1,
    anchors: int = 1,
    alpha: str | None = None,
    step: str | None = None,
    anchor_history: str = "server",
    released: bool = False,
    tau: float = 0.0,
    rho: float = 0.0,
) -> States:
    """FedGuCci, eq. 7 and 12 (KDD 2025), or with tau and rho FedGuCci+.

    `tau` calibrates the logits and `rho` is the length of the sharpness-aware step.
    """
    alpha, step = alpha or ("half" if released else "uniform"), step or ("sequential" if released else "joint")
    sent: list[W] = []
    of_client: dict[int, list[W]] = {}

    def direction(loss: Loss, w: W) -> W:
        """The direction of the released code, which does not clear an anchor's gradient at w before the second pass."""
        sharpened = sharp(rho)(loss, w) if rho else gradient(loss, w)
        uncleared = released and rho and loss.__name__ == "along"
        return plus(sharpened, gradient(loss, w)) if uncleared else sharpened

    def train(w: W, t: int, i: int) -> W:
        if len(sent) == t:
            sent.append(w)
        of_client.setdefault(i, []).append(w)
        history = of_client[i] if anchor_history == "client" else sent
        held = history[: -anchors - 1 : -1]
        sizes = counts(case, i)

        def losses(x: Tensor, y: Tensor, draws: Any) -> list[Loss]:
            def plain(v: W) -> Tensor:
                return calibrated_nll(logits(v, x), y, sizes, tau)

            def term(k: int) -> Loss:
                nodes = {"uniform": draws[k : k + 1], "half": [0.5], "gauss2": [0.5 - 12**-0.5, 0.5 + 12**-0.5]}[alpha]

                def along(v: W) -> Tensor:
                    between = [{n: a * v[n] + (1 - a) * held[k][n] for n in v} for a in nodes]
                    return beta / len(held) * torch.stack([plain(v) for v in between]).mean()

                return along

            terms = [term(k) for k in range(len(held))]
            if step == "sequential":
                return [plain, *terms]
            return [lambda v: plain(v) + sum(term(v) for term in terms)]

        return descend(case, w, t, i, losses, direction)

    for w in rounds(case, train):
        yield {"model": flat(w)}


LOOPS: dict[str, Callable[..., States]] = {
    "fedasam": fed_sam,
    "fedfa": fed_fa,
    "fedgucci": fed_gucci,
    "fedgucci+": partial(fed_gucci, tau=0.1, rho=0.05),
    "fedlc": fed_lc,
    "fedrod": fed_rod,
    "fedsam": fed_sam,
    "moon": moon,
}
