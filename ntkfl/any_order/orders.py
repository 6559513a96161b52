"""Training in any order: random orders, and orders chosen to move the weights away from a point W*."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from ntkfl.connectivity.network import TwoLayer
from ntkfl.connectivity.paths.long_sums import LONG
from ntkfl.limit.convex_loss import SQUARES, ConvexLoss
from ntkfl.problem import Problem, Weights

Aim = Literal["random", "distance", "residual", "probe"]
SAFETY = 1e-9  # share of the largest step 2 that is left to rounding


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
        """x w^T of all samples, (n, m). It is kept for the last W, where many batches begin; W must not be changed."""
        last = self._last
        if last[0] is not w:
            last = self._last = w, self.x @ w.T
        return last[1]

    def outputs(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """f_W(x), (k, C)."""
        return np.maximum(x @ w.T, 0) @ self.readout.T

    def pull(self, w: np.ndarray, samples: np.ndarray | slice = slice(None)) -> np.ndarray:
        """-l', minus the derivative of the loss, of these samples, (k, C); for squares the residual.

        `shift` is added to the outputs.
        """
        outputs = np.maximum(self.inner(w)[samples], 0) @ self.readout.T
        return -self.loss.slope(outputs + self.shift, self.y[samples])

    def longest(self, w: np.ndarray, samples: np.ndarray, shape: np.ndarray) -> float:
        """The largest factor t with |E J J' E| <= 2, E = diag(sqrt(t shape_i)), J the gradients; in float64."""
        x, readout, root = self.x[samples].astype(float), self.readout.astype(float), np.sqrt(shape)
        on = ((self.inner(w)[samples] >= 0)[:, None, :] * readout).reshape(-1, len(w))  # (k C, m)
        pairs = (on @ on.T).reshape(len(samples), len(readout), len(samples), -1)
        products = pairs * (np.outer(root, root) * (x @ x.T))[:, None, :, None]
        norm = np.linalg.svd(products.reshape(len(on), -1), compute_uv=False)[0]
        return float(2 / norm) if norm > 0 else np.inf

    def step(self, w: np.ndarray, batch: Batch) -> tuple[np.ndarray, np.floating]:
        """The weights W+ after the step, and sum_B eta_i |r_i|^2, r the pulls."""
        residual = self.pull(w, batch.samples)
        pull = batch.steps.astype(LONG)[:, None] * residual  # (k, C)
        on = self.inner(w)[batch.samples] >= 0  # (k, m)
        change = (on * (pull @ self.readout)).T @ self.x[batch.samples]
        return w + change, (pull * residual).sum()


def batches(network: Network, w: np.ndarray, rng: np.random.Generator, eps: float, count: int) -> Iterator[Batch]:
    """Random batches with equal or unequal weights; each step is the longest that W's patterns allow, or shorter."""
    n = len(network.x)
    for _ in range(count):
        samples = np.sort(rng.choice(n, rng.integers(1, n + 1), replace=False))
        shape = np.ones(len(samples)) if rng.random() < 0.5 else rng.uniform(0.01, 1, len(samples))
        batch = allowed(network, w, samples, shape, rng.choice([0.05, 0.5, 1.0]) * (1 - eps / 2))
        if batch is not None:
            yield batch


def allowed(network: Network, w: np.ndarray, samples: np.ndarray, shape: np.ndarray, share: float) -> Batch | None:
    """These samples with weights of these ratios, at a share of the longest step; None if all gradients are 0."""
    longest = network.longest(w, samples, shape)
    return Batch(samples, share * (1 - SAFETY) * longest * shape) if np.isfinite(longest) else None


@dataclass(frozen=True, eq=False)
class OrderedRun:
    """The record of a run: values after each of T steps."""

    distance: np.ndarray  # |W - W*|, (T+1,)
    spent: np.ndarray  # eps sum eta_i |r_i|^2 so far, (T+1,); a step of a model in a mean has the model's weight
    residual: np.ndarray  # |r|, (T+1,)
    outputs: np.ndarray  # outputs on the probes, (T+1, k, C)
    weights: np.ndarray  # the last W


def run_in_order(
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
) -> OrderedRun:
    """Train on from these weights; every fifth step is a mean of three models that have each made three steps.

    The aim "random" takes a random batch. The other aims draw `tries` random batches and take the one that makes |W -
    W*|, |r|, or the change of the outputs on the probes largest. `longer` and `server` multiply the steps and the
    server's step on the mean; above 1 they break the theorem's rules.
    """
    network, rng = Network(problem, weights, loss), np.random.default_rng(seed)
    probe = np.zeros((0, problem.d), LONG) if probes is None else np.asarray(probes).astype(LONG)
    w, spent = network.start, LONG(0)
    target = np.asarray(point).astype(LONG)
    first = network.outputs(w, probe)
    score: dict[str, Callable] = {
        "random": lambda w: 0,
        "distance": lambda w: ((w - target) ** 2).sum(),
        "residual": lambda w: (network.pull(w) ** 2).sum(),
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
    return OrderedRun(distances, spending, residuals, outputs, w)
