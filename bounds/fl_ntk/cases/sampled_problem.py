"""Training and held-out samples: of a known distribution on the sphere, or by new splits of the user's data."""

from dataclasses import dataclass, replace
from inspect import signature

import numpy as np

from ntkfl import data
from ntkfl.problem import Problem


@dataclass(frozen=True)
class SphereDistribution:
    """x uniform on the sphere of radius `length` in R^d, y = signal x_1/|x| + noise times a fair coin, +-1."""

    d: int = 5
    signal: float = 0.5
    noise: float = 0.0
    length: float = 1.0

    def sample(self, n: int, held_out: int, seed: int, clients: int) -> Problem:
        """n training and `held_out` further samples, all independent; clients get samples in turn."""
        rng = np.random.default_rng([seed, n, 7])
        x = rng.normal(size=(n + held_out, self.d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        y = self.signal * x[:, 0] + self.noise * rng.choice([-1.0, 1.0], size=n + held_out)
        owner, x = np.arange(n) % min(clients, n), self.length * x
        return Problem(x[:n], y[:n], owner, x[n:], y[n:], name=f"sphere(d={self.d}, n={n}, seed={seed})")


@dataclass(frozen=True)
class UserData:
    """Data by a name or a path on the command line; every seed draws new training and held-out rows."""

    spec: str
    unit: bool = False

    def sample(self, n: int, held_out: int, seed: int, clients: int) -> Problem:
        """At most n training rows and `held_out` others; of a file or table at least a third is held out."""
        if self.spec == "sphere":
            return SphereDistribution(d=8, signal=0.0, noise=1.0).sample(n, held_out, seed, clients)
        loader = data.BUILT_IN.get(self.spec)
        # tables have no test rows, and are split as files are
        if loader is not None and "test" in signature(loader).parameters:
            whole = data.named(self.spec, n=n, seed=seed, test=min(held_out, 1000), unit=self.unit)
            assert whole.x_test is not None and whole.y_test is not None
            return replace(whole, owner=np.arange(n) % min(clients, n))
        whole = data.named(self.spec, unit=self.unit, clients=1, partition="iid")
        whole.require_no_zero_row()
        order = np.random.default_rng([seed, 8]).permutation(whole.n)
        n = max(1, min(n, 2 * whole.n // 3))
        train, rest = order[:n], order[n : n + held_out]
        if not len(rest):
            raise ValueError(f"{self.spec} has {whole.n} row; a population loss needs at least 2, one to hold out")
        owner = np.arange(n) % min(clients, n)
        return Problem(whole.x[train], whole.y[train], owner, whole.x[rest], whole.y[rest], name=whole.name)
