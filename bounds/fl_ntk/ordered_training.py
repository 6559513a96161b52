"""Cases: training from a checkpoint, in a random order or in an order that an adversary chooses."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bounds import Family, Options
from bounds.case import Case
from bounds.fl_ntk.certificates.checkpoint_draw import checkpoint_families
from ntkfl.any_order import AnyOrderCertificate, certify_any_order
from ntkfl.any_order.constraint_rows import Nearest
from ntkfl.any_order.orders import Aim, OrderedRun, run_in_order
from ntkfl.connectivity.paths.long_sums import LONG_EPS
from ntkfl.limit.convex_loss import HINGE, SQUARES, ConvexLoss, band, huber
from ntkfl.problem import Problem, Weights

STEPS_RUN = 24
EPS = 2e-3  # every step stays below the limit 2 by this share of it
PROBES = 5
SMALL, TRIES, FEW_TRIES = 100, 6, 2  # up to SMALL neurons an adversary tries TRIES batches, beyond FEW_TRIES
TRAINED = 5  # seeds of trained networks
LOSSES = (HINGE, band(0.2), huber(1e-3), HINGE)
NEWTON = 8  # steps towards given outputs
AIMS: tuple[Aim, ...] = ("random", "distance", "residual", "probe")


@dataclass(frozen=True, eq=False)
class OrderedTraining(Case):
    """A network and 24 training steps: any batches and sample weights; every fifth step is a mean of three models."""

    problem: Problem
    weights: Weights
    aim: Aim  # the quantity that the adversary tries to enlarge
    seed: int
    # longer, server: as in `run_in_order`; above 1 they break the rules
    longer: float = 1.0
    server: float = 1.0
    loss: ConvexLoss = SQUARES
    claimed: float = 0.5  # the theorem is applied with this share of the steps' eps, so that no comparison is a tie

    @cached_property
    def certificate(self) -> AnyOrderCertificate:
        """The certificate of the network before these steps."""
        return certify_any_order(self.problem, self.weights, loss=self.loss)

    @cached_property
    def probes(self) -> np.ndarray:
        """Unit inputs on which predictions are watched."""
        x = np.random.default_rng([self.seed, 7]).standard_normal((PROBES, self.problem.d))
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    @cached_property
    def fit(self) -> tuple[np.ndarray, Nearest]:
        """W* in long precision, with D, from the certificate; if certification failed, from the empty set A.

        Raises:
            ArithmeticError: there is no W*.
        """
        try:
            return self.certificate.claimed_point()
        except ValueError as error:
            raise ArithmeticError(str(error)) from None

    @cached_property
    def run(self) -> OrderedRun:
        """The steps in long precision, with the distances to W*."""
        return run_in_order(
            self.problem,
            self.weights,
            self.fit[0],
            steps=STEPS_RUN,
            aim=self.aim,
            eps=EPS,
            probes=self.probes,
            tries=TRIES if len(self.weights.signs) <= SMALL else FEW_TRIES,
            seed=self.seed,
            longer=self.longer,
            server=self.server,
            loss=self.loss,
        )

    @cached_property
    def rounding(self) -> float:
        """The errors of distances to W*, from long precision and from W* in float64."""
        point, nearest = self.fit
        return float(64 * LONG_EPS * np.sqrt((point**2).sum())) + 2 * nearest.slack

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        return {"problem": self.problem.name, "n": self.problem.n, "m": len(self.weights.signs), "aim": self.aim} | (
            {} if self.loss is SQUARES else {"loss": self.loss.name}
        )


def _small(seed: int) -> OrderedTraining:
    """Two to four samples, 64 neurons, labels of size 1 to 100 near the outputs, a few neurons beside kinks."""
    return small_case(seed, 10.0 ** -(2 + seed % 3), 64, AIMS[seed % 4])


def small_case(seed: int, distance: float, width: int, aim: Aim, **broken: Any) -> OrderedTraining:
    """Labels at `distance` times their size from the outputs; some cases have near-duplicates or neurons near kinks."""
    rng = np.random.default_rng([seed, 11])
    n, d, size = int(rng.integers(2, 5)), 5, 10.0 ** rng.uniform(0, 2)
    x = rng.standard_normal((n, d))
    if seed % 5 == 1:
        x[-1] = x[0] + 0.1 * rng.standard_normal(d)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    hidden = size * rng.standard_normal((width, d))
    for r, i in zip(rng.integers(width, size=3), rng.integers(n, size=3), strict=True):
        hidden[r] -= (hidden[r] @ x[i] - 0.01 * distance * size * rng.standard_normal()) * x[i]
    weights = Weights(hidden, rng.choice([-1.0, 1.0], width))
    direction = rng.standard_normal(n)
    y = weights.outputs(x) + distance * size * direction / np.linalg.norm(direction)
    problem = Problem(x, y, np.minimum(np.arange(n), 1), name="small networks in any order")
    return OrderedTraining(problem, weights, aim, seed, **broken)


def _small_with_loss(seed: int) -> OrderedTraining:
    return loss_case(seed, LOSSES[seed % 4], 10.0 ** -(1.5 + seed % 3), 64, AIMS[seed // 4 % 4])


def loss_case(seed: int, loss: ConvexLoss, distance: float, width: int, aim: Aim, **broken: float) -> OrderedTraining:
    """Three to six labels +-1; some outputs miss the minimisers by up to `distance`, the others are beyond them."""
    rng = np.random.default_rng([seed, 17])
    n, d = int(rng.integers(3, 7)), 6
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    weights = Weights(rng.standard_normal((width, d)), rng.choice([-1.0, 1.0], width))
    y = rng.choice([-1.0, 1.0], n)
    assert loss.minimisers is not None
    low, high = loss.minimisers(y)
    inside = y * (1 + rng.uniform(0, 0.5, n)) if loss is HINGE else y + (high - low) * rng.uniform(-0.5, 0.5, n)
    missed = np.where(y > 0, low, high) - y * distance * rng.random(n)
    wanted = np.where(rng.random(n) < 0.6, missed, inside)
    for _ in range(NEWTON):
        active = (weights.hidden @ x.T >= 0) * weights.signs[:, None] / np.sqrt(width)
        kernel = (active.T @ active) * (x @ x.T)
        step = np.linalg.lstsq(kernel, wanted - weights.outputs(x), rcond=None)[0]
        weights = Weights(weights.hidden + (active * step) @ x, weights.signs)
    problem = Problem(x, y, np.minimum(np.arange(n), 1), name="small networks, other losses")
    return OrderedTraining(problem, weights, aim, seed, loss=loss, **broken)


def _trained(base: Family, seed: int) -> OrderedTraining:
    """The checkpoint of another family, then trained in any order."""
    run = base.case(seed)
    return OrderedTraining(run.problem, run.weights, AIMS[seed % 4], seed)


# For the search: few neurons, labels at any distance.
ANY_SMALL = st.builds(
    small_case, st.integers(0, 2**31), st.floats(1e-5, 1.0), st.integers(4, 64), st.sampled_from(AIMS)
)
ANY_LOSS = st.builds(
    loss_case,
    st.integers(0, 2**31),
    st.sampled_from(LOSSES),
    st.floats(1e-5, 1.0),
    st.integers(8, 64),
    st.sampled_from(AIMS),
)
OTHER_LOSSES = Family("small networks, other losses", _small_with_loss, ANY_LOSS)
SMALL_NETWORKS = Family("small networks in any order", _small, ANY_SMALL)


def ordered_families(options: Options) -> tuple[Family, ...]:
    """Small networks; and a few larger ones, on digits (n=8) or the user's data, at width 1000 after 300 rounds."""
    return SMALL_NETWORKS, *(
        Family(f"{base.name}, then in any order", _trained, ANY_SMALL, (base,), min(base.trials, TRAINED), needs=5)
        for base in checkpoint_families(options)
    )
