"""IMA in the kernel regime: the mean of a linear method's last models is sent to the clients, or only evaluated."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.limit.linear_regime import LinearRegime
from ntkfl.limit.linear_round import LinearRound, Memory, Vectors


@dataclass(frozen=True)
class MovingWindow:
    """The mean of the last `size` models, as in training, or of all models while there are fewer.

    Args:
        size: number of models.
        start: rounds after which the mean takes the model's place.
        fed_back: whether the mean is sent out and the next round starts from it; otherwise the mean is only evaluated.

    Raises:
        ValueError: a size below 1, a start below 0.
    """

    size: int
    start: int = 0
    fed_back: bool = True

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"the window is {self.size} models; it must be a positive integer")
        if self.start < 0:
            raise ValueError(f"averaging starts after {self.start} rounds; it must be 0 or more")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WindowedRegime(LinearRegime):
    """A linear method under a moving window.

    Spectrum, rate and limits are those of rounds with a full window, or the method's if the mean is only evaluated.

    Args:
        inner: the method's own round.
        window: the window over the models of this round.

    Source: IMA, eq. 5; docs/proofs/linear_methods.md#state-maps.
    """

    inner: LinearRound
    window: MovingWindow

    @classmethod
    def of(cls, regime: LinearRegime, window: MovingWindow) -> WindowedRegime:
        """A regime's method under the window.

        Args:
            regime: the method, without a window.
            window: the window over the models of the method.
        """
        own = regime.round
        full = with_full_window(own, window.size, regime.problem.n) if window.fed_back else own
        fields = {name: getattr(regime, name) for name in ("problem", "setup", "gram", "kernel", "step_factors")}
        windowed = cls(**fields, method=f"{regime.method}+ima", round=full, inner=own, window=window)
        vars(windowed)["_clients"] = regime._clients  # `cached_property` looks here first
        return windowed

    @property
    def modes(self) -> None:
        """None, since a mean of models is reported or sent out."""
        return None

    def _takes_at_once(self, rounds: int, outputs: int) -> bool:
        return False  # the reported mean is no linear map of one state

    def _rounds(self, initial: Float[np.ndarray, "n C"]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        plain = replace(self, round=self.inner)  # the window's memory has the method's memory in it
        model, memory, t = (initial, np.zeros_like(initial)), plain._empty(initial), 0
        models: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=self.window.size)
        reported = model
        while True:
            interruption.check()
            yield reported
            residual, memory, move = plain._next(model[0], memory)
            t += 1
            model = residual, model[1] + move
            models.append(model)
            if t < self.window.start:
                reported = model
            else:
                reported = np.mean([r for r, _ in models], axis=0), np.mean([c for _, c in models], axis=0)
            if self.window.fed_back:
                model = reported


def with_full_window(own: LinearRound, size: int, n: int) -> LinearRound:
    """A round from the mean of the last `size` models to the next such mean.

    The round remembers the method's own memory and u_j: the last Q = `size` models without the oldest, each less the
    mean of all Q. If the method remembers nothing and has the factor l = 1 - nu, the eigenvalues z of the round satisfy
    z^Q = (l/Q) (1 + z + ... + z^(Q-1)). With z on the unit circle, l is real only for l = 1 and l = -Q. So the round is
    stable for -Q < l < 1.

    Source: docs/proofs/linear_methods.md#state-maps.
    """
    if size == 1:
        return own
    rows = n if own.length is None else own.length
    kept, length = own.memory * rows, own.memory * rows + (size - 1) * n

    def step(residual: Vectors, memory: Memory) -> tuple[Vectors, Memory]:
        (packed,) = memory
        move, inner = own.step(residual, tuple(np.split(packed[:kept], own.memory)) if own.memory else ())
        others = packed[kept:].reshape(size - 1, n, -1)  # newest first
        shift = (move + others.sum(axis=0)) / size
        behind = np.concatenate([move[None], others[:-1]]) - shift
        return shift, (np.concatenate([*inner, behind.reshape((size - 1) * n, -1)]),)

    def roots(nu: np.ndarray) -> np.ndarray:
        companion = np.zeros((len(nu), size, size))
        companion[:, 0, :] = ((1 - nu) / size)[:, None]
        companion[:, np.arange(1, size), np.arange(size - 1)] = 1
        return np.linalg.eigvals(companion)

    plain = own.memory == 0 and own.response is not None
    return replace(
        own,
        step=step,
        memory=1,
        length=length,
        response=own.response if plain else None,
        roots=roots if plain else None,
        limit=1.0 + size,
        server=None,
    )
