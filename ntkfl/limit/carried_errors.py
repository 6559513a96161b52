"""What tiles and rounding do to the rounds of plain averaging: bounds that are carried along with a run."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.gram.tiles import UNIT, Tiles
from ntkfl.limit.linear_round import Blocks, LinearRound

SAFE = 1.01  # covers the rounding of the bounds themselves


class BoundedRound(NamedTuple):
    """r(t) and c_t of a run, and what they may be off by."""

    # residual, moved: r(t) and c_t, (n, C)
    residual: Float[np.ndarray, "n C"]
    moved: Float[np.ndarray, "n C"]
    norm_error: float  # of the residual in |.|_F
    entry_error: float  # of each entry of it
    energy_error: float  # of the coefficients, (e' H e)^(1/2), all columns together


@dataclass(frozen=True)
class Margins:
    """How far what is computed in a round is from H and P = u(H_D); norms are spectral, or bounds of them."""

    product: float  # of H v, over |v|
    size: float  # at least |H|
    entry: float  # at least each diagonal entry of H
    response: float  # of P
    # least, most: between which P is
    least: float
    most: float
    largest: float  # at least every eigenvalue of H P

    @classmethod
    def of(cls, tiles: Tiles, work: Blocks, round: LinearRound) -> "Margins":
        """Those of a round.

        Raises:
            ValueError: a round that is something else, or steps for which no bound is proved.

        Source: docs/proofs/linear_methods.md#errors-of-tiles.
        """
        if round.response is None or round.memory or round.server is None:
            raise ValueError(
                "no error bound is proved for this method with tiles: there is one for plain averaging of the clients, "
                "as in fl-ntk, fedavg, fedprox and fednova. `residual` and `predict` give the numbers without a bound"
            )
        steps = np.stack(list(work.local_steps()))
        length, plain = steps.sum(axis=0), work.response(round.pull)
        response = found_most = largest = 0.0
        found_least = np.inf
        for owned, basis in zip(work.clients.members, work.clients.vectors, strict=True):
            interruption.check()
            size, q, u = len(owned), work.clients.values[owned], round.response[owned]
            block, gamma = tiles[np.ix_(owned, owned)], 1.01 * (2 * size + 8) * UNIT * size
            top, walked = float(q.max()), float(length[owned[0]])
            skew = float(np.linalg.norm(basis.T @ basis - np.eye(size))) + gamma
            off = float(np.linalg.norm((basis * q) @ basis.T - block)) + gamma * top + 2.1 * skew * top
            off += tiles.block_error(owned, block)
            if steps[:, owned[0]].max() * (top + off + round.pull) > 2:
                raise ValueError(
                    f"no error bound is proved for eta_local = {steps.max():g}: it must be below "
                    f"{2 / (top + off + round.pull):.6g}, where every local step contracts"
                )
            weight = float((u / plain[owned]).max())
            rounded = 2.1 * skew + gamma + (8 + 4 * len(steps)) * UNIT
            wrong = weight * walked * (walked * off / 2 + rounded)
            response, found_most = max(response, wrong), max(found_most, float(u.max()) + wrong)
            found_least = min(found_least, float(u.min()) - wrong)
            largest += float((q * u).max()) + off * weight * walked + (top + off) * wrong
        margins = cls(
            SAFE * (tiles.error + tiles.product_rounding),
            SAFE * (tiles.norm + tiles.error),
            SAFE * (tiles.largest_own + tiles.error),
            SAFE * response,
            found_least / SAFE,
            SAFE * found_most,
            SAFE * largest,
        )
        if margins.least <= 0 or margins.largest > 2:
            raise ValueError(
                f"no error bound is proved for these steps: a round's eigenvalues are at most {margins.largest:.6g}, "
                f"which must be at most 2, and its response is at least {margins.least:.6g}, which must be positive"
            )
        return margins


def bounded_rounds(
    tiles: Tiles, round: LinearRound, margins: Margins, initial: Float[np.ndarray, "n C"]
) -> Iterator[BoundedRound]:
    """Round 0, 1, ... with bounds.

    Source: docs/proofs/linear_methods.md#errors-of-tiles.
    """
    residual, moved = initial, np.zeros_like(initial)
    drift = energy = defects = 0.0
    spread = float(np.sqrt(margins.most / margins.least))
    while True:
        interruption.check()
        entry = min(spread * defects, drift + np.sqrt(margins.entry) * energy)
        yield BoundedRound(residual, moved, SAFE * spread * defects, SAFE * float(entry), SAFE * energy)
        move, _ = round.step(residual, ())
        slip = margins.response * float(np.linalg.norm(residual))
        residual, moved = residual - tiles @ move, moved + move
        lost = UNIT * float(np.linalg.norm(moved))
        defect = margins.product * float(np.linalg.norm(move)) + UNIT * float(np.linalg.norm(residual))
        energy += np.sqrt(margins.largest * margins.most) * drift + np.sqrt(margins.size) * (slip + lost)
        drift += defect + margins.size * lost
        defects += defect + margins.size * slip
