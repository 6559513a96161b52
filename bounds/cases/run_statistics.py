"""The statistics of a run for claims on rates in the width; each is computed when it is used."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bounds.cases.snapshot import Snapshot
from bounds.federated_run import FederatedRun
from ntkfl import gram, kernel_regime
from ntkfl.problem import Weights

TEST_POINTS = 5


@dataclass(frozen=True, eq=False)
class RunStatistics:
    """Statistics of one run of T rounds with K local steps; t is its middle round, (t, k) the last step there.

    The middle round is recomputed in weight space.
    """

    run: FederatedRun

    @property
    def movement(self) -> float:
        """max_r |u_r(T) - u_r(0)|."""
        return float(self._recorded("movement")[-1])

    @property
    def step(self) -> float:
        """max_t max_r |u_r(t+1) - u_r(t)|."""
        return float(self.run.setup.eta_global * self._recorded("step").max())

    @property
    def total_movement(self) -> float:
        """|U(T) - U(0)|_F."""
        return float(self._recorded("total_movement")[-1])

    @property
    def flips(self) -> float:
        """The share of the pairs (r, i) whose pattern at T differs from that at 0."""
        return float(self._recorded("flips")[-1])

    def _recorded(self, name: str) -> np.ndarray:
        values = getattr(self.run.trajectory, name)
        assert values is not None, "the ladder's runs record movements"
        return values

    @cached_property
    def gram_drift(self) -> np.ndarray:
        """H(T) - H(0), (n, n)."""
        last = self.run.trajectory.weights[self.run.setup.rounds]
        return gram.finite(self.run.problem.x, last) - self.run.initial_gram.value

    @cached_property
    def linearised(self) -> np.ndarray:
        """y_m - y_lin, (T+1, n), y_lin the kernel regime of H(0)."""
        outputs = self.run.trajectory.outputs
        frozen = kernel_regime(self.run.problem, self.run.setup, self.run.initial_gram.value)
        return outputs - frozen.outputs(self.run.rounds, outputs[0])

    @property
    def frobenius_movement(self) -> float:
        """The distance of |U(T) - U(0)|_F from its value at infinite width."""
        return abs(self.total_movement - self.total_movement_limit)

    @property
    def outputs(self) -> float:
        """max_t |y_m(t) - y_inf(t)|."""
        return self._against_limits["outputs"]

    @property
    def movement_limit(self) -> float:
        """Leading order of `movement`: max_r |X^T (c_T * s_r)| / sqrt m, s_r the initial patterns, c_T as in X.8."""
        return self._against_limits["movement_limit"]

    @property
    def total_movement_limit(self) -> float:
        """`total_movement` at infinite width, sqrt(c_T^T H_inf c_T)."""
        return self._against_limits["total_movement_limit"]

    @property
    def prediction(self) -> float:
        """RMS over five test points of f(x, T) less the infinite-width network's output there."""
        return self._against_limits["prediction"]

    @property
    def local_step(self) -> float:
        """max over c, r, k of |w_{k,c,r}(t) - u_r(t)|."""
        return self._inside["local_step"]

    @property
    def local_gram_drift(self) -> np.ndarray:
        """H(t,k) - H(0), (n, n)."""
        return self._inside["local_gram_drift"]

    @property
    def asymmetry(self) -> np.ndarray:
        """H(t,k) - H(t,k)^T, (n, n)."""
        return self._inside["asymmetry"]

    @property
    def jacobian(self) -> float:
        """|J(t,k) - J(0,0)|_F, every sample under the weights of its own client."""
        return self._inside["jacobian"]

    @property
    def complement(self) -> float:
        """max_k |H(t,k)^perp|_F, with R the run's own movement."""
        return self._inside["complement"]

    @property
    def remainder(self) -> float:
        """|v_2| / |y - y(t)|, with R the run's own movement."""
        return self._inside["remainder"]

    @cached_property
    def _against_limits(self) -> dict[str, float]:
        run, x, last = self.run, self.run.problem.x, self.run.setup.rounds
        outputs = run.trajectory.outputs
        start, limit = outputs[0], kernel_regime(run.problem, run.setup)
        infinite = limit.outputs(run.rounds, start)
        points = np.random.default_rng(2).normal(size=(TEST_POINTS, run.problem.d))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        hidden, signs = run.weights
        before, after = (Weights(u, signs).outputs(points) for u in (hidden, run.trajectory.weights[last]))
        coefficients = np.linalg.solve(limit.gram, infinite[-1] - start)
        led = np.where(gram.activations(x, hidden).T, coefficients, 0) @ x
        return {
            "outputs": float(np.linalg.norm(outputs - infinite, axis=1).max()),
            "total_movement_limit": float(limit.movement(last, start)),
            "movement_limit": float(np.linalg.norm(led, axis=1).max() / np.sqrt(run.setup.width)),
            "prediction": float(np.sqrt(((after - limit.predict(points, last, start, before)) ** 2).mean())),
        }

    @cached_property
    def _inside(self) -> dict[str, Any]:
        run = self.run
        inside, x, steps = Snapshot(run), run.problem.x, run.setup.local_steps
        outside = ~inside.safe
        last = inside.gram(steps - 1)
        off = [inside.gram(k, outside) for k in range(steps)]
        local, _ = inside.local
        before = gram.activations(x, run.weights.hidden)
        flipped = np.empty(run.problem.n)
        for c, members in enumerate(run.problem.members):
            after = gram.activations(x[members], local[-2, c])
            flipped[members] = (after != before[members]).mean(axis=1)
        return {
            "local_step": float(np.sqrt(((local - inside.hidden) ** 2).sum(axis=-1).max())),
            "local_gram_drift": last - run.initial_gram.value,
            "asymmetry": last - last.T,
            "jacobian": float(np.sqrt((flipped * (x**2).sum(axis=1)).sum())),
            "complement": max(float(np.linalg.norm(block)) for block in off),
            "remainder": float(
                np.linalg.norm(inside.change(outside).value) / run.trajectory.residual_norm[run.snapshot_round]
            ),
        }
