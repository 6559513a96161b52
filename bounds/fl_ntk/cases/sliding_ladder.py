"""The case of a network with neurons that are held at kinks, trained by FedAvg with shorter and shorter steps.

A pair is a neuron and a sample. The pair is held if the neuron stays at its kink on this sample because the gradients
on both sides point to the kink. On a ladder the same quantity is measured at several step sizes.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Case, Family
from bounds.case import prepared
from ntkfl.finite_width.boundary_layer import Sliding, sliding
from ntkfl.interruption import check
from ntkfl.problem import Problem, Weights

STEP_SIZES = 2.0 ** -np.arange(5, 12)  # the values of K eta / N, which is the time of gradient flow in a round
STARTS = 48  # number of starts for each step size; held neurons start at random places within one step of their kinks
TIME = 0.5
TIMES = np.linspace(0, TIME, 65)  # the times at which the hypotheses are checked
TRIALS = 12
SAMPLES, FEATURES, WIDTH, HELD = 4, 6, 64, 6
DRAWS = 200  # largest number of draws of data and network; in a third of all draws, kinks hold HELD neurons
KINK_MARGIN = 0.3  # the least distance from its kink at which a pair that is not held starts
BETWEEN = (0.25, 0.75)  # the range of psi, the share of time that a held pair is active, for drawn pairs
CLIENTS, LOCAL_STEPS = 2, 3


@dataclass(frozen=True, eq=False)
class SlidingLadder(Case):
    """A network whose `pairs` are exactly at their kinks, and its residual at the start.

    Gradient flow goes on to time .5.
    """

    x: np.ndarray
    weights: Weights
    pairs: np.ndarray
    residual: np.ndarray
    seed: int = 0
    # N and K, with sample i on client i mod N; N = K = 1 is gradient descent
    clients: int = 1
    local_steps: int = 1

    @cached_property
    def sliding(self) -> Sliding:
        """The pairs at their kinks."""
        return sliding(Problem(self.x, np.zeros(len(self.x))), self.weights, self.pairs)

    @cached_property
    def _flow(self) -> tuple[np.ndarray, np.ndarray]:
        """The residuals exp(-t H_P) r_0, (times, n), and their integrals over time, at `TIMES`."""
        rates, modes = np.linalg.eigh(self.sliding.kernel())
        start = modes.T @ self.residual
        decay = np.exp(-TIMES[:, None] * rates)
        gone = np.where(rates > 1e-12, -np.expm1(-TIMES[:, None] * rates) / np.maximum(rates, 1e-12), TIMES[:, None])
        return (decay * start) @ modes.T, (gone * start) @ modes.T

    @property
    def limit(self) -> np.ndarray:
        """The residual exp(-t H_P) r_0 at the end, (n,)."""
        return self._flow[0][-1]

    @cached_property
    def activations(self) -> np.ndarray:
        """The values of psi along the flow, (times, q)."""
        return np.array([self.sliding.activations(residual) for residual in self._flow[0]])

    @property
    def pushed_back(self) -> float:
        """The least distance of psi from 0 and 1 along the flow.

        It is negative if a pair leaves its kink or has a_r r_i >= 0.
        """
        psi, signs = self.activations, self.weights.signs[self.pairs[:, 0]]
        repelled = (signs * self._flow[0][:, self.pairs[:, 1]] >= 0).any()
        return -1.0 if repelled else float(np.minimum(psi, 1 - psi).min(initial=1.0))

    @property
    def clearance(self) -> float:
        """The least distance of a pair that is not held from its kink, along the flow, minus a movement.

        The movement is a bound on what local steps add in a round.
        """
        z = (self.weights.hidden + np.einsum("ti,imd->tmd", self._flow[1], self.sliding.features())) @ self.x.T
        side = np.where(self.weights.hidden @ self.x.T >= 0, 1.0, -1.0)
        side[self.pairs[:, 0], self.pairs[:, 1]] = np.inf
        z[:, self.pairs[:, 0], self.pairs[:, 1]] = 1.0
        # a bound on the movement in the local steps of a round, for unit rows
        moves = self.clients * STEP_SIZES[0] * np.sqrt(len(self.x) / len(self.weights.signs))
        return float((side * z).min() - moves * np.linalg.norm(self.residual))

    @prepared
    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Two distances at the end of each run: of the residual from exp(-t H_P) r_0, and of shares from the mean psi.

        The shares are the pairs' shares of active steps, and psi is averaged over time. A pair's active steps are
        counted among the local steps of the client that has its sample.

        Returns:
            Two arrays, (steps, starts); the distance of shares is a root mean square over the pairs.
        """
        rng = np.random.default_rng([self.seed, 17])
        descents = [self._descend(time, rng.uniform(-1, 1, (STARTS, len(self.pairs)))) for time in STEP_SIZES]
        return np.array([start for start, _ in descents]), np.array([other for _, other in descents])

    def _descend(self, time: float, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The two results of `runs` for one step size, (starts,) each.

        `places`, (starts, pairs), says where the held neurons start relative to their kinks. The unit is the length of
        the step to which the pair's own sample leads.
        """
        neuron, sample = self.pairs.T
        a = self.weights.signs / np.sqrt(len(self.weights.signs))
        y = a @ np.maximum(self.weights.hidden @ self.x.T, 0) + self.residual
        w = np.repeat(self.weights.hidden[None], STARTS, axis=0)
        moved = time * places * np.abs(a[neuron] * self.residual[sample]) / (self.x[sample] ** 2).sum(axis=1)
        for k, (r, i) in enumerate(self.pairs):
            w[:, r] += moved[:, [k]] * self.x[i]
        rounds, eta, gram = round(TIME / time), time * self.clients / self.local_steps, self.x @ self.x.T
        # Every move is in the span of the rows. So a step needs only the products of w with the rows, (n, starts, m).
        z = np.ascontiguousarray(np.moveaxis(w @ self.x.T, 2, 0))
        active = np.zeros((len(self.pairs), STARTS))
        for _ in range(rounds):
            check()
            moves = np.empty_like(z)
            for client in range(self.clients):
                own = np.arange(client, len(y), self.clients)
                held = np.flatnonzero(sample % self.clients == client)
                places, local = sample[held] // self.clients, z[own]
                total = move = np.zeros_like(local)
                for step in range(self.local_steps):
                    if step:
                        local = local + np.tensordot(gram[np.ix_(own, own)], move, 1)
                    on = local >= 0
                    active[held] += on[places, :, neuron[held]]
                    residual = y[own, None] - np.maximum(local, 0) @ a
                    move = residual[:, :, None] * (eta * a)
                    move *= on
                    total = total + move
                moves[own] = total
            z += np.tensordot(gram / self.clients, moves, 1)
        residual = (y[:, None] - np.maximum(z, 0) @ a).T
        psi = np.trapezoid(self.activations, TIMES, axis=0) / TIME
        share = active.T / (rounds * self.local_steps)
        return np.linalg.norm(residual - self.limit, axis=1), np.sqrt(((share - psi) ** 2).mean(axis=1))

    @property
    def n_runs(self) -> int:
        """The number of runs."""
        return len(STEP_SIZES) * STARTS

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        facts = {"n": len(self.x), "m": len(self.weights.signs), "held pairs": len(self.pairs), "seed": self.seed}
        return facts | {"N": self.clients, "K": self.local_steps}


def sliding_case(
    seed: int,
    held: int = HELD,
    *,
    repelled: bool = False,
    near: bool = False,
    clients: int = 1,
    local_steps: int = 1,
) -> SlidingLadder:
    """The case of one seed."""
    rng = np.random.default_rng([seed, 19])
    for _ in range(DRAWS):
        check()
        x = rng.standard_normal((SAMPLES, FEATURES))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        residual = rng.uniform(0.5, 1.5, SAMPLES) * rng.choice([-1.0, 1.0], SAMPLES)
        signs = rng.choice([-1.0, 1.0], WIDTH)
        rows = 2 * rng.standard_normal((40 * WIDTH, FEATURES))
        hidden = rows[(np.abs(rows @ x.T) > KINK_MARGIN).all(axis=1)][:WIDTH]
        pairs: list[tuple[int, int]] = []
        problem = Problem(x, np.zeros(SAMPLES))
        for neuron in range(WIDTH):
            sample = int(rng.integers(SAMPLES))
            row = hidden[neuron] - (hidden[neuron] @ x[sample]) * x[sample]
            z = np.delete(x @ row, sample)
            if (
                len(pairs) == held
                or (signs[neuron] * residual[sample] < 0) == repelled
                or (np.abs(z) <= KINK_MARGIN).any()
            ):
                continue
            pair = sliding(problem, Weights(row[None], signs[neuron : neuron + 1]), np.array([[0, sample]]))
            if BETWEEN[0] < pair.activations(residual)[0] < BETWEEN[1]:
                hidden[neuron] = row
                pairs.append((neuron, sample))
        if len(pairs) == held:
            break
    else:
        raise ValueError(f"none of {DRAWS} networks has {held} neurons that a kink holds; ask for fewer")
    if near:
        free = int(np.setdiff1d(np.arange(WIDTH), [neuron for neuron, _ in pairs])[0])
        hidden[free] *= 1e-3
    return SlidingLadder(x, Weights(hidden, signs), np.array(pairs), residual, seed, clients, local_steps)


def _ladder(clients: int, local_steps: int, seed: int) -> SlidingLadder:
    return sliding_case(seed, clients=clients, local_steps=local_steps)


def _any_ladder(clients: int, local_steps: int) -> SearchStrategy[SlidingLadder]:
    """Cases of other seeds, with fewer held pairs."""
    kind = {"clients": st.just(clients), "local_steps": st.just(local_steps)}
    return st.builds(sliding_case, st.integers(0, 2**31), st.integers(1, HELD), **kind)


# Random unit rows, and networks with six held neurons whose psi is from .25 to .75. The networks are trained by
# gradient descent and by FedAvg.
SLIDING_LADDERS = (
    Family("neurons at kinks that hold them", _ladder, _any_ladder, (1, 1), TRIALS, needs=5),
    Family(
        f"the same on {CLIENTS} clients with {LOCAL_STEPS} local steps",
        _ladder,
        _any_ladder,
        (CLIENTS, LOCAL_STEPS),
        TRIALS,
        needs=5,
    ),
)
