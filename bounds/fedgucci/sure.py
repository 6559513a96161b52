"""The bound on the barrier that holds surely, without a probability."""

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import BEYOND, Change, Claim, Family, Form, Kind, Options, Source
from bounds.cases.cube_networks import CubeNetworks
from bounds.cases.network_pair import LIPSCHITZ_LOSS
from bounds.fedgucci.families.cube_families import loss_families
from bounds.fedgucci.premises.cube_bound import MUTANTS, cube_bound
from bounds.fedgucci.premises.cube_symbols import SURE, C, L, with_loss
from bounds.fedgucci.premises.cube_terms import IN_CUBE
from bounds.mutants import replaced, without
from bounds.part_strategies import log_uniform
from ntkfl.connectivity import ABSOLUTE, CROSS_ENTROPY, TwoLayer

INSIDE = 0.999  # largest distance of the networks' parameters from the anchor's, over half the side


def _corners(kinks: bool, outputs: int, seed: int) -> CubeNetworks:
    """Networks with the signs, side and lengths of one seed; 16 units, 3 features."""
    rng = np.random.default_rng([seed, 31])
    return _built(kinks, outputs, (16, 3), rng, np.exp(rng.uniform(-4, 0, 3)) * (1, 1, 1e4))


def _any_corners(kinks: bool, outputs: int) -> SearchStrategy[CubeNetworks]:
    """Corners of cubes of other sizes."""

    def built(seed: int, h: int, features: int, side: float, length: float) -> CubeNetworks:
        return _built(kinks, outputs, (h, features), np.random.default_rng([seed, 31]), np.array([side, length, 1e3]))

    sizes = log_uniform(1e-2, 1)
    return st.builds(built, st.integers(0, 2**16), st.integers(2, 8), st.integers(1, 4), sizes, sizes)


def _built(
    kinks: bool, outputs: int, shape: tuple[int, int], rng: np.random.Generator, sizes: np.ndarray
) -> CubeNetworks:
    """Two networks at opposite corners of the cube, on one input whose entries all have the same size.

    The loss is the absolute loss for one output, and cross-entropy for several. For cross-entropy one more unit, equal
    in both networks, moves the outputs to where the loss is steepest.

    With `kinks` the rows are +-d/2 around U_anc = 0 under equal readouts, so that each unit is active in one network
    only. Otherwise all units are active and the readouts are +-d/2 around 0, so that z is a parabola.
    """
    (h, features), (side, length, norm) = shape, sizes.tolist()
    x = rng.choice([-length, length], (1, features))
    half, along = side / 2 * INSIDE, np.sign(x)
    moves = half * rng.choice([-1.0, 1.0], (h, 1)) * along
    if kinks:
        moves[-1] = 0
        direction = np.ones(1) if outputs == 1 else np.eye(outputs)[1] - np.eye(outputs)[0]
        direction *= norm / np.linalg.norm(direction) / np.sqrt(h - 1)
        hidden, readout = np.zeros((h, features)), np.tile(direction[:, None], h)
        readout[:, -1] *= -1e-3 * (outputs > 1)  # its unit is far from its kink: class 0 leads, and the label is 1
        hidden[-1] = 1e4 * (h * side * features * length + 1 / norm) / length / features * along
        pulls = np.zeros_like(readout)
    else:
        moves = half * along * np.ones((h, 1))
        hidden, readout = 10 * side * along * np.ones((h, 1)), np.full((outputs, h), side * 1e-9)
        pulls = np.full(readout.shape, half)
    ends = [(hidden + sign * moves, readout + sign * pulls) for sign in (1, -1)]
    anchor, *networks = (TwoLayer(u, v[0] if outputs == 1 else v) for u, v in ((hidden, readout), *ends))
    y, loss = (np.array([1e6]), ABSOLUTE.name) if outputs == 1 else (np.array([1]), CROSS_ENTROPY.name)
    return CubeNetworks(anchor, tuple(networks), side, x, y, loss=loss)


def corner_families(options: Options) -> tuple[Family, ...]:
    """One output and several, with kinks and without; no family for the user's inputs, whose entries differ in size."""
    return () if options.data is not None else tuple(family.with_trials(options.trials) for family in CORNERS)


CORNERS = tuple(
    Family(
        f"corners, {'kinks' if kinks else 'parabola'}, h=16, C={outputs}, {loss.name}",
        _corners,
        _any_corners,
        (kinks, outputs),
        trials=5,
    )
    for kinks, outputs, loss in (
        (True, 1, ABSOLUTE),
        (False, 1, ABSOLUTE),
        (True, 2, CROSS_ENTROPY),
        (False, 3, CROSS_ENTROPY),
    )
)


STATEMENTS = (
    cube_bound(
        "fedgucci/sure",
        "Barrier between any two networks of a cube",
        Source(
            BEYOND,
            "docs/proofs/connectivity.md#the-sure-bound",
            note="no randomness is used: |V_i - V_anc|_F <= d sqrt(C h)/2, |V_anc J| <= |V_anc| |J| and E_x |(U_1 - "
            "U_2) x| <= d s sqrt(h l). With x uniform in the ball, s = b/sqrt(l+2) < b/sqrt(l), it is below the right "
            "side of Theorem 3.5 at the true d whenever sqrt(h) <= 2 sqrt(2) log(12h/delta): up to 1114 hidden units "
            "at delta = .1",
        ),
        {Form.NEW: Claim(with_loss(SURE))},
        kind=Kind.UPPER,
        hypotheses=(IN_CUBE, LIPSCHITZ_LOSS),
        families=lambda options: loss_families(options) + corner_families(options),
        mutants=(
            replaced(L, sp.Min(L, 1), "the constant 1 for every loss", Change.CONSTANT),
            replaced(L, L / 2, "half the loss's constant", Change.CONSTANT),
            without(C),
            *MUTANTS,
        ),
    ),
)
