"""One round in detail: local weights, the Gram matrices H(t,k), which are not symmetric, and the sets Q_i.

In a round the neurons of Q_i change output i by entry i of v_1. All other neurons change it by entry i of v_2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from bounds.federated_run import FederatedRun
from ntkfl import Estimate, gram

EPS = np.finfo(float).eps


@lru_cache(maxsize=2)
def snapshot(run: FederatedRun) -> Snapshot:
    """The middle round of a run. The result is kept for later calls, since several statements use the same run."""
    return Snapshot(run)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Round t = run.snapshot_round of a run, computed anew from the weights u(t)."""

    run: FederatedRun

    @cached_property
    def hidden(self) -> np.ndarray:
        """u(t), (m, d)."""
        return self.run.trajectory.weights[self.run.snapshot_round]

    @cached_property
    def local(self) -> tuple[np.ndarray, np.ndarray]:
        """The local weights and residuals of the round.

        Returns: w_{k,c}(t), (K+1, N, m, d), and y - y^{(k)}(t), (K, n), with every sample under the weights of its own
        client.
        """
        problem, setup, signs = self.run.problem, self.run.setup, self.run.weights.signs
        weights = np.empty((setup.local_steps + 1, problem.n_clients, *self.hidden.shape))
        residual = np.empty((setup.local_steps, problem.n))
        scale = 1 / np.sqrt(setup.width)
        for c, members in enumerate(problem.members):
            weights[0, c] = self.hidden
            x = problem.x[members]
            for k in range(setup.local_steps):
                z = weights[k, c] @ x.T
                residual[k, members] = problem.y[members] - scale * (signs @ np.maximum(z, 0))
                pull = signs[:, None] * (z >= 0) * residual[k, members]
                weights[k + 1, c] = weights[k, c] + setup.eta_local * scale * (pull @ x)
        return weights, residual

    @cached_property
    def next_hidden(self) -> np.ndarray:
        """u(t+1), (m, d)."""
        weights, _ = self.local
        return self.hidden + self.run.setup.eta_global * (weights[-1] - self.hidden).mean(axis=0)

    @cached_property
    def radius(self) -> float:
        """R: the largest distance of a global weight vector from its start, at round t or t+1."""
        moved = [np.linalg.norm(u - self.run.weights.hidden, axis=1).max() for u in (self.hidden, self.next_hidden)]
        return float(max(moved) * (1 + 1e-9))

    @cached_property
    def safe(self) -> np.ndarray:
        """The sets Q_i as booleans, (n, m).

        A neuron r is in Q_i if no weight within R of u_r(0) gives another activation on sample i than u_r(0).
        """
        return gram.safe_neurons(self.run.problem.x, self.run.weights.hidden, self.radius)

    @cached_property
    def stacked_residual(self) -> Estimate:
        """The residuals y - y^{(k)}(t) for k = 0..K-1, one after the other, (K n,)."""
        _, residual = self.local
        m = self.run.setup.width
        size = np.abs(self.hidden @ self.run.problem.x.T).sum(axis=0) / np.sqrt(m) + np.abs(self.run.problem.y)
        return Estimate(
            residual.ravel(), np.tile((m + self.run.problem.d + 8) * EPS * size, len(residual)), "rounding bound"
        )

    def gram(self, k: int, neurons: np.ndarray | None = None) -> np.ndarray:
        """H(t,k), (n, n).

        Row i is summed over the neurons that `neurons`, (n, m), gives for sample i (default: all).
        """
        return gram.local_gram(self.run.problem.x, self.run.problem.owner, self.hidden, self.local[0][k], neurons)

    def grams(self, neurons: np.ndarray | None = None) -> Estimate:
        """[H(t,0) ... H(t,K-1)], (n, K n). Row i is summed over the neurons given for sample i (default: all)."""
        blocks = [self.gram(k, neurons) for k in range(self.run.setup.local_steps)]
        return Estimate(np.hstack(blocks), np.hstack(self._doubts), "counts, rounding bound")

    @cached_property
    def local_active(self) -> list[np.ndarray]:
        """For each k, 1{w_{k,c(j),r}(t).x_j >= 0}, (n, m), with every sample j under the weights of its own client."""
        return self._at_own_client(gram.activations)

    @cached_property
    def _doubts(self) -> list[np.ndarray]:
        """For each k, bounds on the errors of H(t,k).

        The errors come from activations within rounding of a kink, and from the rounding of x_i.x_j.
        """
        x = self.run.problem.x
        inner = np.abs(x) @ np.abs(x).T
        ours = gram.doubtful(x, self.hidden)
        doubts = []
        for theirs in self.local_doubtful:
            doubts.append(((ours[:, None] + theirs) / self.run.setup.width + 2 * (x.shape[1] + 4) * EPS) * inner)
        return doubts

    @cached_property
    def local_doubtful(self) -> list[np.ndarray]:
        """For each k and sample j, how many activations under w_{k,c(j)}(t) are within rounding of the kink, (n,)."""
        return self._at_own_client(gram.doubtful)

    def _at_own_client(self, look: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> list[np.ndarray]:
        """For each k, a quantity of every sample, computed with the weights of the sample's own client."""
        x, clients = self.run.problem.x, self.run.problem.members
        order = np.argsort(np.concatenate(clients))
        local = self.local[0][:-1]
        return [np.concatenate([look(x[own], w[c]) for c, own in enumerate(clients)])[order] for w in local]

    @cached_property
    def mean_slope_grams(self) -> Estimate:
        """The matrices [G^(0) ... G^(K-1)], (n, K n).

        G^(k) is H(t,k) with the mean slope of relu over the round in place of 1{u(t).x_i >= 0}.
        """
        x = self.run.problem.x
        before, after = x @ self.hidden.T, x @ self.next_hidden.T
        change = after - before
        slope = np.where(
            (before >= 0) == (after >= 0),
            (before >= 0).astype(float),
            (np.maximum(after, 0) - np.maximum(before, 0)) / np.where(change == 0, 1, change),
        )
        blocks = [(x @ x.T) * (slope @ active.T) / self.run.setup.width for active in self.local_active]
        # A slope is a quotient of two differences and lies in [0, 1]. Its error is rounding / |change|, and at most 1.
        rounding = 4 * (x.shape[1] + 4) * EPS * np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(self.hidden, axis=1)
        flips = (before >= 0) != (after >= 0)
        doubt = np.where(flips, np.minimum(1, rounding / np.maximum(np.abs(change), 1e-300)), 0)
        m = self.run.setup.width
        slopes = (doubt.sum(axis=1) / m + m * EPS)[:, None] * (np.abs(x) @ np.abs(x).T)
        error = np.hstack([doubt + slopes for doubt in self._doubts])
        return Estimate(np.hstack(blocks), error, "rounding bound")

    def change(self, neurons: np.ndarray | None = None) -> Estimate:
        """The sum over neurons of a_r (relu(u_r(t+1).x_i) - relu(u_r(t).x_i)) / sqrt m, (n,).

        For each sample the sum is over the given `neurons`, (n, m). The neurons of Q_i give v_1, the neurons outside
        Q_i give v_2, and all neurons (the default) give v_1 + v_2.
        """
        x, m = self.run.problem.x, self.run.setup.width
        before, after = x @ self.hidden.T, x @ self.next_hidden.T
        moved = np.maximum(after, 0) - np.maximum(before, 0)
        if neurons is not None:
            moved = moved * neurons
        value = moved @ self.run.weights.signs / np.sqrt(m)
        norms = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(self.hidden, axis=1)
        setup = self.run.setup
        steps = setup.local_steps * max(1.0, setup.eta_global)  # u(t+1) has eta_g times the rounding error of each step
        of_weights = (x.shape[1] + 6 * steps + 8) * EPS * norms.sum(axis=1)
        return Estimate(value, (of_weights + m * EPS * np.abs(moved).sum(axis=1)) / np.sqrt(m), "rounding bound")
