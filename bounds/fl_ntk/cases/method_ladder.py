"""The case of networks of several widths that the engine trains under every method with an exact linear limit.

On a ladder the same quantity is measured at several widths.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Options
from bounds.federated_run import FederatedFamily, federated_families
from bounds.fl_ntk.cases.method_training import Training
from bounds.ladders.rungs import SPACING, WidthFamily
from bounds.ladders.width_ladder import WidthLadder
from ntkfl import Problem, Setup, data

PULL, SERVER_MOMENTUM, CLIENT_MOMENTUM, CONNECTED = 0.8, 0.6, 0.5, 1.5
RATE = 1.2  # the server rate of the methods that have one
WINDOW = 3  # number of models whose mean the server sends out in IMA
RUNGS = {round(2 ** (8 + half / 2)): 5 for half in range(11)}  # maps a width to the number of networks
WIDTHS = "widths 2^8..2^13"


def variants(rate: float = 1.0, clients: int = 2) -> dict[str, Training]:
    """Every method that is linear in the weights, by its name on the command line."""
    served = {"server_rate": rate}
    pushed = served | {"momentum": SERVER_MOMENTUM}
    return {
        "fl-ntk": Training("fl-ntk", served),
        "fedavg": Training("fedavg", served),
        "fedavg-momentum": Training("fedavg", served, CLIENT_MOMENTUM),
        "fedavg-schedule": Training("fedavg", served, step_factors=(1.0, 0.4)),
        "fedavg-unequal": Training("fedavg", served, client_steps=tuple(1 + 2 * (c % 2) for c in range(clients))),
        "fedavg-ima": Training("fedavg", served, window=WINDOW),
        "fedprox": Training("fedprox", served | {"mu": PULL}),
        "fednova": Training("fednova", {"mu": PULL / 2}),
        "scaffold": Training("scaffold", served),
        "scaffold-1": Training("scaffold", served | {"option": "I"}),
        "feddyn": Training("feddyn", {"alpha": PULL}),
        "cyclic": Training("cyclic", served),
        "fedavgm": Training("fedavgm", pushed),
        "fedavgm-nesterov": Training("fedavgm", pushed | {"nesterov": True}),
        "fedgucci": Training("fedgucci", {"alpha": "gauss2", "beta": CONNECTED}),
        "fedgucci-half": Training("fedgucci", {"alpha": "half", "beta": CONNECTED}),
    }


COVERED = {"fl-ntk": "fl-ntk/W-outputs", "fedgucci-half": "the integral over alpha by one point in place of two"}
METHODS = tuple(name for name in variants() if name not in COVERED)


@dataclass(frozen=True, eq=False)
class MethodLadder(WidthLadder):
    """A ladder of widths whose networks the engine trains under each of METHODS, from the same start.

    Every run starts from the residual r_0. `setup.eta_global` is the server rate of the methods that have one.
    """

    @cached_property
    def trained(self) -> list[list[np.ndarray]]:
        """The residuals y - y_m(t) under each of METHODS, (methods, T+1, n), for every network of each width."""
        return self.in_rungs("trained", self._row)

    def _row(self, row: int, places: range) -> Iterable[np.ndarray]:
        chosen, steps = variants(self.setup.eta_global, self.problem.n_clients), replace(self.setup, eta_global=1.0)
        runs = self.runs[row][places.start : places.stop]
        return np.stack([chosen[name].residuals_together(runs, steps) for name in METHODS], axis=1) if runs else ()

    @property
    def residuals(self) -> dict[str, list[np.ndarray]]:
        """For each method and each width, the residuals y - y_m(t) of the networks, (networks, T+1, n)."""
        return {name: [np.array(row)[:, i] for row in self.trained] for i, name in enumerate(METHODS)}

    @cached_property
    def limits(self) -> dict[str, np.ndarray]:
        """For each method the residuals at infinite width, (T+1, n), by `kernel_regime`."""
        chosen, steps = variants(self.setup.eta_global, self.problem.n_clients), replace(self.setup, eta_global=1.0)
        rounds = np.arange(self.setup.rounds + 1)
        return {name: chosen[name].regime(self.problem, steps).residual(rounds) for name in METHODS}

    def samples(self, name: str) -> list[np.ndarray]:
        """max_t |y_m(t) - y_inf(t)| / |r_0| for every network under this method, (networks,) for each width."""
        scale = np.linalg.norm(self.problem.y)
        return [np.linalg.norm(row - self.limits[name], axis=2).max(axis=1) / scale for row in self.residuals[name]]

    @property
    def rounding(self) -> float:
        """A generous bound on the rounding error of an entry of y - y_m(t) at the largest width.

        The error comes from sums over neurons.
        """
        steps = self.setup.rounds * self.setup.local_steps * self.widths[-1] ** 1.5 * np.finfo(float).eps
        longest = float(np.linalg.norm(self.problem.x, axis=1).max())
        return steps * (self.setup.sigma * np.sqrt(self.problem.d) * longest + float(np.abs(self.problem.y).max()))

    def prepare(self) -> None:
        """Train the networks now."""
        _ = self.trained

    def plain(self) -> MethodLadder:
        """The ladder itself, since the engine has only float64."""
        return self


def _ladder(
    base: FederatedFamily | None, setup: Setup, widths: tuple[int, ...], counts: tuple[int, ...], seed: int
) -> MethodLadder:
    """The ladder whose first seed is `seed`, on the user's data or on sixteen points of two clients."""
    return MethodLadder(_points(16, 8, seed) if base is None else base.problem(seed), setup, widths, counts, seed)


def _any_ladder(base: FederatedFamily | None, setup: Setup) -> SearchStrategy[MethodLadder]:
    """The ladder on other points, with one to three local steps of sizes eta_local from .1 to .5."""

    def ladder(n: int, d: int, seed: int, local_steps: int, eta_local: float) -> MethodLadder:
        chosen = replace(setup, local_steps=local_steps, eta_local=eta_local)
        return MethodLadder(_points(n, d, seed), chosen, tuple(RUNGS), tuple(RUNGS.values()), seed * SPACING)

    return st.builds(
        ladder, st.integers(12, 16), st.integers(8, 12), st.integers(0, 99), st.integers(1, 3), st.floats(0.1, 0.5)
    )


def _points(n: int, d: int, seed: int) -> Problem:
    """Points on the sphere. The first of two clients has three eighths of them."""
    whole = data.sphere(n, d, seed=seed, clients=1, labels="uniform")
    return Problem(whole.x, whole.y, (np.arange(n) >= 3 * n // 8).astype(int), name=f"sphere, n={n}, d={d}, N=2")


def method_families(options: Options) -> tuple[WidthFamily, ...]:
    """Two local steps and four rounds on sixteen points, or on the user's data."""
    base = federated_families(options)[0] if options.data is not None else None
    setup = options.setup(eta_local=0.4, local_steps=2, rounds=4, eta_global=RATE)
    name = f"{base.name if base else 'sphere, n=16, d=8'}, every method, {WIDTHS}"
    return (WidthFamily.of_rungs(name, _ladder, _any_ladder, (base, setup), RUNGS),)
