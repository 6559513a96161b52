"""A search for an order of training that contradicts an any-order certificate.

The function `train_further` goes on training in a random order, or in an order that is chosen to be unfavourable.

A "pseudo-residual" is minus the derivative of the loss by an output, which the proofs call a pull; for squares it is
the residual. A model is "on a kink" where a pre-activation w_r.x_i is 0. W* are the fitting weights of the theorem in
`ntkfl.any_order`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from ntkfl import interruption
from ntkfl.any_order.certificate import AnyOrderCertificate
from ntkfl.connectivity.network import TwoLayer
from ntkfl.limit.convex_loss import SQUARES, ConvexLoss
from ntkfl.messages import refusing, require_number, require_size
from ntkfl.problem import Problem, Weights
from ntkfl.rounding import LONG, LONG_EPS

Aim = Literal["random", "distance", "residual", "probe"]
# a step is at most 1 - SAFETY times the longest step with |E J J' E| <= 2, which leaves room for rounding
SAFETY = 1e-9


@dataclass(frozen=True, eq=False)
class Batch:
    """One step: samples, and the weight eta_i of each."""

    samples: Int[np.ndarray, " k"]
    steps: Float[np.ndarray, " k"]


class Network:
    """A two-layer ReLU network in long precision, trained by the steps of the theorem."""

    def __init__(
        self, problem: Problem, weights: Weights | TwoLayer, loss: ConvexLoss = SQUARES, shift: np.ndarray | float = 0.0
    ) -> None:
        if isinstance(weights, TwoLayer):
            hidden, readout = weights.hidden, np.atleast_2d(weights.readout).astype(LONG)
        else:
            hidden, readout = weights.hidden, weights.signs[None].astype(LONG) / np.sqrt(LONG(len(weights.signs)))
        self.x, self.y = problem.x.astype(LONG), problem.y.reshape(problem.n, -1).astype(LONG)
        self.start, self.readout = np.asarray(hidden).astype(LONG), readout
        self.loss, self.shift = loss, shift
        self._last: tuple[np.ndarray, np.ndarray] = self.start, self.x @ self.start.T

    def inner(self, w: np.ndarray) -> np.ndarray:
        """The pre-activations x w^T of all samples, (n, m).

        The products are cached for the last W, since many batches begin at the same W. So the array W must not be
        changed.
        """
        last = self._last
        if last[0] is not w:
            last = self._last = w, self.x @ w.T
        return last[1]

    def outputs(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """f_W(x), (k, C)."""
        return np.maximum(x @ w.T, 0) @ self.readout.T

    def pseudo_residuals(self, w: np.ndarray, samples: np.ndarray | slice = slice(None)) -> np.ndarray:
        """-l', minus the derivative of the loss by the outputs, at these samples, (k, C); for squares this is the
        residual.

        The derivative is taken at the outputs plus the attribute `shift`.
        """
        outputs = np.maximum(self.inner(w)[samples], 0) @ self.readout.T
        return -self.loss.slope(outputs + self.shift, self.y[samples])

    def longest(self, w: np.ndarray, samples: np.ndarray, shape: np.ndarray) -> float:
        """The largest factor t with |E J J' E| <= 2, computed in float64.

        Here E = diag(sqrt(t shape_i)), and J has the gradients of the outputs.
        """
        x, readout, root = self.x[samples].astype(float), self.readout.astype(float), np.sqrt(shape)
        on = ((self.inner(w)[samples] >= 0)[:, None, :] * readout).reshape(-1, len(w))  # (k C, m)
        pairs = (on @ on.T).reshape(len(samples), len(readout), len(samples), -1)
        products = pairs * (np.outer(root, root) * (x @ x.T))[:, None, :, None]
        norm = np.linalg.svd(products.reshape(len(on), -1), compute_uv=False)[0]
        return float(2 / norm) if norm > 0 else np.inf

    def step(self, w: np.ndarray, batch: Batch) -> tuple[np.ndarray, np.floating]:
        """The weights W+ after the step, and sum_B eta_i |r_i|^2, where r_i is the pseudo-residual of sample i."""
        residual = self.pseudo_residuals(w, batch.samples)
        weighted = batch.steps.astype(LONG)[:, None] * residual  # (k, C)
        on = self.inner(w)[batch.samples] >= 0  # (k, m)
        change = (on * (weighted @ self.readout)).T @ self.x[batch.samples]
        return w + change, (weighted * residual).sum()


def batches(network: Network, w: np.ndarray, rng: np.random.Generator, eps: float, count: int) -> Iterator[Batch]:
    """Random batches with equal or unequal weights; each step has the largest size that the theorem allows for the
    patterns of W, or a smaller size.
    """
    n = len(network.x)
    for _ in range(count):
        samples = np.sort(rng.choice(n, rng.integers(1, n + 1), replace=False))
        shape = np.ones(len(samples)) if rng.random() < 0.5 else rng.uniform(0.01, 1, len(samples))
        batch = allowed(network, w, samples, shape, rng.choice([0.05, 0.5, 1.0]) * (1 - eps / 2))
        if batch is not None:
            yield batch


def allowed(network: Network, w: np.ndarray, samples: np.ndarray, shape: np.ndarray, share: float) -> Batch | None:
    """A batch of these samples, whose weights have these ratios and give this share of the longest step; None if all
    gradients are 0.
    """
    longest = network.longest(w, samples, shape)
    return Batch(samples, share * (1 - SAFETY) * longest * shape) if np.isfinite(longest) else None


@dataclass(frozen=True, eq=False)
class FurtherTraining:
    """The record of further training: values at the start and after each of T steps."""

    distance: np.ndarray  # |W - W*|, (T+1,)
    # the sum of eps eta_i |r_i|^2 so far, (T+1,), where eps is the theorem's number with |E J J' E| <= 2 - eps; a step
    # of a model is multiplied by the model's weight in the mean
    spent: np.ndarray
    residual: np.ndarray  # |r|, (T+1,)
    outputs: np.ndarray  # outputs on the probes, (T+1, k, C)
    weights: np.ndarray  # the last W


def train_further(
    problem: Problem,
    weights: Weights | TwoLayer,
    point: Float[np.ndarray, "m d"],
    *,
    steps: int,
    aim: Aim = "random",
    eps: float = 1e-3,
    probes: Float[np.ndarray, "k d"] | None = None,
    tries: int = 6,
    seed: int = 0,
    longer: float = 1.0,
    server: float = 1.0,
    loss: ConvexLoss = SQUARES,
) -> FurtherTraining:
    """Train on from these weights; every fifth step is a mean of three models that have each made three steps.

    With the aim "random" each batch is random. With the other aims, the number of random batches that are drawn is
    `tries`. The step takes the batch after which the aim's number is largest: |W - W*| ("distance"), |r| ("residual"),
    or the largest change of an output on the inputs `probes` ("probe"). `longer` multiplies the clients' step sizes,
    and `server` is the server's step on the mean. Values above 1 are outside the theorem's conditions.
    """
    network, rng = Network(problem, weights, loss), np.random.default_rng(seed)
    probe = np.zeros((0, problem.d), LONG) if probes is None else np.asarray(probes).astype(LONG)
    w, spent = network.start, LONG(0)
    target = np.asarray(point).astype(LONG)
    first = network.outputs(w, probe)
    score: dict[str, Callable] = {
        "random": lambda w: 0,
        "distance": lambda w: ((w - target) ** 2).sum(),
        "residual": lambda w: (network.pseudo_residuals(w) ** 2).sum(),
        "probe": lambda w: np.abs(network.outputs(w, probe) - first).max(initial=0),
    }
    rows = []

    def advance(w: np.ndarray) -> tuple[np.ndarray, np.floating]:
        candidates = [
            network.step(w, Batch(batch.samples, longer * batch.steps))
            for batch in batches(network, w, rng, eps, 1 if aim == "random" else tries)
        ]
        return max(candidates, key=lambda after: score[aim](after[0])) if candidates else (w, LONG(0))

    for t in range(steps + 1):
        distance, residual = (np.sqrt(score[name](w)) for name in ("distance", "residual"))
        rows.append((distance, spent, residual, network.outputs(w, probe)))
        if t == steps:
            break
        if t % 5 == 4:
            shares = rng.dirichlet(np.ones(3)).astype(LONG)
            shares /= shares.sum()
            models = []
            for share in shares:
                model = w
                for _ in range(3):
                    model, own = advance(model)
                    spent = spent + server * eps * share * own
                models.append(share * model)
            w = w + server * (models[0] + models[1] + models[2] - w) if server != 1 else sum(models[1:], models[0])
        else:
            w, own = advance(w)
            spent = spent + eps * own
    distances, spending, residuals, outputs = (np.array(column) for column in zip(*rows, strict=True))
    return FurtherTraining(distances, spending, residuals, outputs, w)


Claim = Literal["distance", "residual"]
Score = Callable[[np.ndarray], float]
# a choice of a batch: its samples, the ratios of their weights, and the step as a share of the longest step
Choice = tuple[np.ndarray, np.ndarray, float]
DEPTH = 30  # rounds of one run
DRAWN, CLIMBED = 6, 6  # number of batches drawn for a step, and number of changes to the best batch that are tried
MODELS = 3  # number of models in a mean
NEAREST = 10  # number of kinks, nearest first, that a run may try to cross
# the ratio of the distances after and before a round is used only if the distance before exceeds this many times its
# rounding error
ABOVE_ROUNDING = 1e6


@dataclass(frozen=True, eq=False)
class Round:
    """One round: models that start from the same weights and make their own steps, and the weights of their mean.

    A round that is a plain step has one model.
    """

    shares: Float[np.ndarray, " k"]
    models: tuple[tuple[Batch, ...], ...]


@refusing({"kept": "it is largest_ratio"})
@dataclass(frozen=True, eq=False)
class Attack:
    """The result of a search.

    Args:
        broken: how the last round of `order` contradicts the theorem: it increases |W - W*|, or makes |y - f(W)| larger
            than |a| |X| D. None if nothing was found.
        order: the rounds, from the checkpoint on; empty if nothing was found.
        before: |W - W*| before the last round, or the largest value of |y - f(W)| that the theorem allows.
        after: |W - W*| after the last round, or the value of |y - f(W)|.
        trials: number of steps tried.
        largest_ratio: the largest |W+ - W*| / |W - W*| among the steps that do not contradict the theorem.
    """

    broken: Claim | None
    order: tuple[Round, ...]
    before: float
    after: float
    trials: int
    largest_ratio: float

    def to_dict(self) -> dict[str, Any]:
        """All values in a form that JSON allows; the order is replaced by its number of rounds. A value that is not
        finite is None.
        """
        ends = {"before": self.before, "after": self.after, "kept": self.largest_ratio}
        finite = {name: value if np.isfinite(value) else None for name, value in ends.items()}
        return {"broken": self.broken, "trials": self.trials, "rounds": len(self.order)} | finite

    def __str__(self) -> str:
        if self.broken is None:
            return f"an adversary looked at {self.trials} steps: none raised |W - W*|, nor |y - f| above |a| |X| D"
        what = "|W - W*|" if self.broken == "distance" else "|y - f|, from at most"
        return (
            f"an adversary found an order of {len(self.order)} rounds whose last raises {what} {self.before:.6g} to "
            f"{self.after:.6g} ({self.trials} steps looked at)"
        )


def attack_any_order(
    certificate: AnyOrderCertificate, *, trials: int = 2000, seed: int = 0, longer: float = 1.0, server: float = 1.0
) -> Attack:
    """Search for an order of training that contradicts the theorem of `ntkfl.any_order`.

    Every run starts at the checkpoint. In its first rounds the search tries to push one neuron over a kink to the side
    opposite to W*, or to increase |W - W*| or |y - f|. In the later rounds it tries to increase |W - W*|. Batches and
    their weights are drawn at random, and the best draw is changed as long as that helps. The weights of a step are the
    largest that the theorem allows for the patterns, or smaller. A pair of a neuron r and a sample i is held if W* must
    satisfy w*_r.x_i = 0. If the network is not certified, W* is the point without held pairs.

    Args:
        certificate: the certificate of the attacked network, certified or not.
        trials: the largest number of steps to try; default 2000.
        seed: the seed of all draws; default 0.
        longer: factor on the clients' step sizes, default 1; a value above 1 is outside the theorem's conditions.
        server: the server's step on a mean, default 1; a value above 1 is outside the theorem's conditions.

    Raises:
        ValueError: there is no W*, trials below 1, or factors that are not positive numbers.
    """
    require_size("trials", trials)
    for name, factor in (("longer", longer), ("server", server)):
        require_number(name, factor, "be a positive finite number")
    return _Search(certificate, int(trials), seed, longer, server).run()


def replayed(
    problem: Problem, weights: Weights | TwoLayer, order: tuple[Round, ...], server: float = 1.0
) -> Iterator[np.ndarray]:
    """The hidden weights (m, d) in long precision: first the given weights, then the weights after each round of an
    order.

    Args:
        problem: data.
        weights: the network before the first round.
        order: the rounds.
        server: the server's step on a mean; default 1.
    """
    network = Network(problem, weights)
    w = network.start
    yield w
    for round_ in order:
        w = w + server * (_mean(network, w, round_) - w) if len(round_.models) > 1 else _mean(network, w, round_)
        yield w


def _mean(network: Network, w: np.ndarray, round_: Round) -> np.ndarray:
    total = np.zeros_like(w)
    for share, steps in zip(round_.shares, round_.models, strict=True):
        model = w
        for batch in steps:
            model, _ = network.step(model, batch)
        total = total + share * model
    return total


class _Broken(Exception):
    """Raised to end the search, since a step contradicts the certificate."""


class _Spent(Exception):
    """Raised to end the search, since no trials are left."""


class _Search:
    def __init__(self, certificate: AnyOrderCertificate, trials: int, seed: int, longer: float, server: float) -> None:
        problem, shift = certificate.trained()
        self.network = Network(problem, certificate.weights, certificate.loss, shift)
        self.rng = np.random.default_rng([seed, 13])
        self.trials_left = self.trials = trials
        self.order: list[Round] = []
        self.longer, self.server, self.largest_ratio = longer, server, 0.0
        point, nearest = certificate.claimed_point()
        self.point, distance = point, float(nearest.distance.hi)
        self.rounding = float(64 * LONG_EPS * np.sqrt((point**2).sum())) + 2 * nearest.slack
        lipschitz = np.linalg.norm(self.network.readout.astype(float), 2) * np.linalg.norm(problem.x, 2)
        self.allowed = float(lipschitz * (distance + self.rounding) * (1 + 1e-9))
        z = (point @ self.network.x.T).astype(float)
        self.patterns = z >= 0
        # held pairs are no aim, since W* lies on their kinks and so on neither side
        if len(certificate.held) and certificate.certified:
            z[certificate.held[:, 0], certificate.held[:, 1]] = np.inf
        self.kinks = np.stack(np.unravel_index(np.argsort(np.abs(z), axis=None)[:NEAREST], z.shape), axis=1)

    def run(self) -> Attack:
        try:
            while True:
                self.order, w, first = [], self.network.start, self._first_aim()
                turn = self.rng.integers(DEPTH)
                for t in range(DEPTH):
                    interruption.check()
                    w = self._round(w, first if t < turn else self.distance)
        except _Spent:
            return Attack(None, (), 0.0, 0.0, self.trials, self.largest_ratio)
        except _Broken as error:
            claim, before, after = error.args
            return Attack(claim, tuple(self.order), before, after, self.trials - self.trials_left, self.largest_ratio)

    def distance(self, w: np.ndarray) -> float:
        return float(np.sqrt(((w - self.point) ** 2).sum()))

    def residual(self, w: np.ndarray) -> float:
        return float(np.sqrt((self.network.pseudo_residuals(w) ** 2).sum()))

    def _first_aim(self) -> Score:
        """The aim of a run: in half of the runs to cross a kink near W*, otherwise to increase the distance or the
        residual.
        """
        choice = self.rng.integers(4)
        if choice < 2:
            r, i = self.kinks[self.rng.integers(len(self.kinks))]
            side = -1 if self.patterns[r, i] else 1
            return lambda w: float(side * (w[r] @ self.network.x[i]))
        return self.distance if choice == 2 else self.residual

    def _round(self, w: np.ndarray, score: Score) -> np.ndarray:
        """One further round: a step, or the mean of models that have each made a few steps."""
        if self.rng.random() < 0.8 and self.server == 1:
            batch, after = self._step(w, score, ())
            self.order += [] if batch is None else [_alone(batch)]
            return after
        shares = self.rng.dirichlet(np.ones(MODELS)).astype(LONG)
        shares /= shares.sum()
        models: list[tuple[Batch, ...]] = []
        mean = np.zeros_like(w)
        for share in shares:
            model = w
            steps: tuple[Batch, ...] = ()
            for _ in range(int(self.rng.integers(1, 4))):
                batch, model = self._step(model, score, steps)
                steps += () if batch is None else (batch,)
            models.append(steps)
            mean = mean + share * model
        self.order.append(Round(shares, tuple(models)))
        after = w + self.server * (mean - w)
        self._judge(w, after)
        return after

    def _step(self, w: np.ndarray, score: Score, done: tuple[Batch, ...]) -> tuple[Batch | None, np.ndarray]:
        """The best step found, by drawing batches and then changing the best; None if no step moves any weight.

        `done` has the current model's steps since the last round. If a further step contradicts the theorem, the steps
        of `done` and this step are the last round of the order that contradicts it.
        """
        best: tuple[float, Batch, Choice, np.ndarray] | None = None
        for turn in range(DRAWN + CLIMBED):
            if not self.trials_left:
                raise _Spent
            self.trials_left -= 1
            choice = self._drawn() if best is None or turn < DRAWN else self._changed(*best[2])
            batch = allowed(self.network, w, *choice)
            if batch is None:
                continue
            batch = Batch(batch.samples, self.longer * batch.steps)
            after, _ = self.network.step(w, batch)
            self._judge(w, after, _alone(*done, batch))
            reached = score(after)
            if best is None or reached > best[0]:
                best = reached, batch, choice, after
        return (None, w) if best is None else (best[1], best[3])

    def _drawn(self) -> Choice:
        n, rng = len(self.network.x), self.rng
        size = min(n, int(np.ceil(n ** rng.random())))
        shape = np.ones(size) if rng.random() < 0.5 else 10.0 ** rng.uniform(-2, 0, size)
        return np.sort(rng.choice(n, size, replace=False)), shape, float(rng.choice([1.0, 1.0, 0.5, 0.05]))

    def _changed(self, samples: np.ndarray, shape: np.ndarray, share: float) -> Choice:
        """A changed batch: one sample fewer, one sample more, or other weights."""
        rng, flipped = self.rng, int(self.rng.integers(len(self.network.x)))
        if flipped in samples and len(samples) > 1:
            keep = samples != flipped
            return samples[keep], shape[keep], share
        if flipped not in samples and rng.random() < 0.5:
            more = np.append(samples, flipped)
            return np.sort(more), np.append(shape, 10.0 ** rng.uniform(-2, 0))[np.argsort(more)], share
        return samples, shape * np.exp(rng.normal(size=len(shape))), float(min(1.0, share * np.exp(rng.normal())))

    def _judge(self, w: np.ndarray, after: np.ndarray, *last: Round) -> None:
        """Raise `_Broken` if a round contradicts a claim of the theorem; `last` is this round, if it is not yet in the
        order.
        """
        before, now, residual = self.distance(w), self.distance(after), self.residual(after)
        if before > ABOVE_ROUNDING * self.rounding and now <= before + self.rounding:
            self.largest_ratio = max(self.largest_ratio, now / before)
        if now <= before + self.rounding and residual <= self.allowed:  # a NaN counts as a contradiction
            return
        self.order.extend(last)
        if now <= before + self.rounding:
            raise _Broken("residual", self.allowed, residual)
        raise _Broken("distance", before, now)


def _alone(*steps: Batch) -> Round:
    return Round(np.ones(1), (steps,))
