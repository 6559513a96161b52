"""Families of networks at corners of their cube, where the bound without probability is nearly attained."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds.cases.cube_networks import CubeNetworks
from bounds.draw_counts import CountedDraw
from bounds.options import Options
from bounds.part_strategies import log_uniform
from ntkfl.connectivity.losses import ABSOLUTE, CROSS_ENTROPY
from ntkfl.connectivity.network import TwoLayer

INSIDE = 0.999  # of half the side: how far the networks are from the anchor


@dataclass(frozen=True)
class CornerDraw(CountedDraw):
    """Two networks at opposite corners, seen by one input all of whose entries have the same size.

    Args:
        kinks: rows of +-d/2 around U_anc = 0 under equal readouts, so that each unit is on in one network only; else
            rows that are all on and readouts of +-d/2 around 0, which makes z a parabola.
        loss: absolute, or cross-entropy with C = outputs >= 2. One more unit, the same in both networks, puts the
            outputs where this loss is steepest.
    """

    kinks: bool = True
    loss: str = ABSOLUTE.name
    outputs: int = 1
    h: int = 16
    l: int = 3  # noqa: E741 (the paper's name)
    trials: int = 5

    @property
    def name(self) -> str:
        """What reports call the family."""
        return f"corners, {'kinks' if self.kinks else 'parabola'}, h={self.h}, C={self.outputs}, {self.loss}"

    def case(self, seed: int) -> CubeNetworks:
        """Signs, side and lengths of one seed."""
        rng = np.random.default_rng([seed, 31])
        side, length, norm = np.exp(rng.uniform(-4, 0, 3))
        return self._built(rng, float(side), float(length), float(1e4 * norm))

    def strategy(self) -> SearchStrategy[CubeNetworks]:
        """Corners of cubes of other sizes."""

        def built(seed: int, h: int, features: int, side: float, length: float) -> CubeNetworks:
            shaped = replace(self, h=h, l=features)
            return shaped._built(np.random.default_rng([seed, 31]), side, length, 1e3)

        sizes = log_uniform(1e-2, 1)
        return st.builds(built, st.integers(0, 2**16), st.integers(2, 8), st.integers(1, 4), sizes, sizes)

    def _built(self, rng: np.random.Generator, side: float, length: float, norm: float) -> CubeNetworks:
        x = rng.choice([-length, length], (1, self.l))
        half, along = side / 2 * INSIDE, np.sign(x)
        moves = half * rng.choice([-1.0, 1.0], (self.h, 1)) * along
        if self.kinks:
            moves[-1] = 0
            direction = np.ones(1) if self.outputs == 1 else np.eye(self.outputs)[1] - np.eye(self.outputs)[0]
            direction *= norm / np.linalg.norm(direction) / np.sqrt(self.h - 1)
            hidden, readout = np.zeros((self.h, self.l)), np.tile(direction[:, None], self.h)
            readout[:, -1] *= -1e-3 * (self.outputs > 1)  # its unit is far on: class 0 leads, the label is 1
            hidden[-1] = 1e4 * (self.h * side * self.l * length + 1 / norm) / length / self.l * along
            pulls = np.zeros_like(readout)
        else:
            moves = half * along * np.ones((self.h, 1))
            hidden, readout = 10 * side * along * np.ones((self.h, 1)), np.full((self.outputs, self.h), side * 1e-9)
            pulls = np.full(readout.shape, half)
        ends = [(hidden + sign * moves, readout + sign * pulls) for sign in (1, -1)]
        anchor, *networks = (TwoLayer(u, v[0] if self.outputs == 1 else v) for u, v in ((hidden, readout), *ends))
        y = np.array([1]) if self.loss == CROSS_ENTROPY.name else np.array([1e6])
        return CubeNetworks(anchor, tuple(networks), side, x, y, loss=self.loss)


def corner_draws(options: Options) -> tuple[CornerDraw, ...]:
    """One output and several, both ways; none with the user's inputs, which have entries of different sizes."""
    if options.data is not None:
        return ()
    families = (
        CornerDraw(kinks=True),
        CornerDraw(kinks=False),
        CornerDraw(kinks=True, outputs=2, loss=CROSS_ENTROPY.name),
        CornerDraw(kinks=False, outputs=3, loss=CROSS_ENTROPY.name),
    )
    return tuple(replace(family, trials=options.trials or family.trials) for family in families)
