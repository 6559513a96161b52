"""The rounds of a method with their error bounds, saved in a file, from which a run that was stopped is continued.

The file has a mark, which is a checksum of the run's data, kernel, method and settings. A file with another mark
belongs to another run and is refused.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from ntkfl.limit.carried_errors import (
    SAFE,
    Asking,
    BoundedRound,
    Carried,
    Margins,
    RunState,
    Series,
    SeriesState,
    bounded_powers,
    bounded_rounds,
    nodes_of,
    summed,
)
from ntkfl.work import CALL, MOST, require_work

if TYPE_CHECKING:
    from ntkfl.limit.matrix_free import MatrixFreeRegime

SAVED_EVERY = 10  # the file is written whenever this many rounds are done, and at each round that is reported
# operations of a round without the product with H; they take two tenths of a millisecond, as measured
A_ROUND = 20 * CALL
QUICK = 2000  # the largest number of samples at which powers of a round's matrix take only seconds
# Number of the kernel's rows in the mark. The mark has several rows, since two kernels may agree in some of them, for
# example in the rows of landmarks that both kernels use.
ROWS = 16
# The version of the rules by which errors are bounded. The version changes when the rules change, since a run must not
# mix bounds by different rules.
VERSION = 2


@dataclass(frozen=True)
class KeptRun:
    """A run of a method from an initial residual, through the rounds that are reported."""

    regime: MatrixFreeRegime
    rounds: np.ndarray  # the rounds that are reported
    initial: np.ndarray  # the residual before the first round; if the run has a file, this residual is the labels
    wrong: float = 0.0  # a bound of the norm of the initial residual's error
    proved: bool = False  # whether a ValueError is raised if no error bounds are proved
    file: Path | None = None  # if this file exists, the run starts from its content
    identity: str = ""  # a name that distinguishes the run from others with the same data and kernel
    progress: Callable[[int], None] = lambda done: None  # called with the number of steps done

    @cached_property
    def _kept(self) -> tuple[str, dict[str, np.ndarray]]:
        """The run's mark, and the content of its file."""
        if self.file is None:
            return "", {}
        mark = self._mark()
        return mark, self._read(mark) if self.file.exists() else {}

    @cached_property
    def _last(self) -> int:
        return int(self.rounds.max(initial=0))

    @cached_property
    def _bounds(self) -> tuple[Carried | None, Margins | None]:
        """The error bounds; None if no bound is proved, which is only allowed if `proved` is False."""
        with nullcontext() if self.proved else suppress(ValueError):
            self.regime._require_squares(self.initial)
            return self.regime._carried(self._last), self.regime._margins
        return None, None

    @cached_property
    def _series(self) -> Series | None:
        """The series that replaces rounds.

        None if the series does not take fewer products than the rounds take, or if no error bounds are proved.
        """
        if self._bounds[1] is None:
            return None
        return self.regime._series(
            self.rounds, self._largest, lambda: self._require_time(int(self._kept[1].get("term", 0)), series=True)
        )

    @cached_property
    def _largest(self) -> float:
        """A bound of the eigenvalues of H P.

        A series that is continued keeps the bound with which the terms in the file were computed.
        """
        margins, kept = self._bounds[1], self._kept[1]
        assert margins is not None
        return float(kept.get("largest", margins.largest))

    def recall(self) -> None:
        """Take from the file what an earlier process has computed before the rounds.

        Raises:
            ValueError: the file belongs to another run, or is no file of a run. The check computes no error bounds.
        """
        _, kept = self._kept
        if "rounding" not in kept or kept["rounding"] > SAFE * self.regime.tiles.product_rounding:
            # The file has no bounds, or its bounds are for products with larger rounding errors, as on a device.
            return
        if np.array_equal(kept["bases"], self._bases):
            self.regime._tops.recall(kept)
            self.regime._block_errors.recall(kept)

    @cached_property
    def _bases(self) -> np.ndarray:
        """A fingerprint of the clients' bases: numbers whose bits change when the bits of the bases change.

        Bounds that were computed for some bases hold for no other bases.
        """
        numbers = np.cos(np.arange(len(self.regime.tiles)))
        return self.regime._clients.apply(numbers, numbers)

    def prepare(self) -> None:
        """Compute the error bounds, and write them to the file if there is no file yet."""
        _ = self.steps
        if self.file is not None and not self._kept[1]:
            self._write({})

    def _write(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Write the file: these arrays, and what was computed before the rounds."""
        assert self.file is not None
        tiles = self.regime.tiles
        before = {"bases": self._bases, "rounding": np.array(tiles.product_rounding)}
        before |= {"version": np.array(VERSION), "seen": tiles.fingerprint}
        before |= self.regime._tops.arrays | self.regime._block_errors.arrays
        _write(self.file, self._kept[0], before | dict(arrays))

    @cached_property
    def steps(self) -> int:
        """The number of rounds, or of terms of a series; reading this property computes the run's error bounds."""
        return self._last if self._series is None else self._series.powers.shape[1]

    def asking(self) -> Asking[list[BoundedRound]]:
        """The rounds that are reported, with error bounds if these are proved."""
        kept = self._kept[1]
        if self._series is not None:
            return (yield from self._powers(self._series, kept))
        return (yield from self._one_by_one(kept))

    def _powers(self, series: Series, kept: dict[str, np.ndarray]) -> Asking[list[BoundedRound]]:
        regime, state, terms = self.regime, SeriesState.start(series, self.initial, self.wrong), series.powers.shape[1]
        if "term" in kept:
            state = SeriesState(**{name: kept[name] for name in SeriesState._fields} | {"term": kept["term"].item()})
        self._require_time(state.term, series=True)

        def record(state: SeriesState) -> None:
            self.progress(state.term)
            if self.file is not None and (state.term == terms or state.term % SAVED_EVERY == 0):
                whole = {name: np.asarray(part) for name, part in state._asdict().items()}
                self._write(whole | {"largest": np.array(self._largest)})

        state = yield from summed(regime.round, series, state, self._bounds[1], record)
        return bounded_powers(regime.round, series, state, float(np.linalg.norm(self.initial)), self._bounds[1])

    def _one_by_one(self, kept: dict[str, np.ndarray]) -> Asking[list[BoundedRound]]:
        regime = self.regime
        first = RunState.start(self.initial, regime._empty(self.initial), self.wrong)
        states = {int(name[3:]): part for name, part in kept.items() if name.startswith("at_")}
        bounds = {now: kept[f"bounds_{now}"] for now in states}
        if "round" in kept:
            memory = tuple(kept[f"memory_{i}"] for i in range(len(first.memory)))
            sums, image = tuple(kept["sums"].tolist()), kept["image"]
            first = RunState(int(kept["round"]), kept["residual"], kept["moved"], memory, sums, image)
        self._require_time(first.round, series=False)

        def record(run: RunState, bounded: BoundedRound) -> None:
            now = run.round
            self.progress(now)
            if now in self.rounds:
                states[now], bounds[now] = np.stack(bounded[:2]), np.array(bounded[2:])
            if self.file is not None and (now in self.rounds or now % SAVED_EVERY == 0):
                whole = {"round": np.array(now), "residual": run.residual, "moved": run.moved}
                whole |= {"sums": np.array(run.sums), "image": run.image}
                whole |= {f"memory_{i}": part for i, part in enumerate(run.memory)}
                whole |= {f"at_{at}": part for at, part in states.items()}
                whole |= {f"bounds_{at}": part for at, part in bounds.items()}
                self._write(whole)

        yield from bounded_rounds(regime._onward, first, self._bounds[0], self._last, record)
        return [BoundedRound(*states[now], *bounds[now].tolist()) for now in self.rounds.tolist()]

    def _require_time(self, done: int, series: bool) -> None:
        """Refuse rounds, or terms of a series, that take more than about a day of one core.

        The limit is a quarter of an hour if no file keeps the run and the samples are so few that powers of a round
        take only seconds.

        Raises:
            ValueError: the rounds or terms take longer; the message says how many rounds would fit.
        """
        operations = A_ROUND + self.regime.tiles.work * self.initial.shape[1]
        hint = (
            "ntkfl.kernel_regime(...).residual without matrix_free computes many rounds at once, without error bounds, "
            "if H fits the memory"
        )
        alone = self.file is None and self.regime.problem.n <= QUICK
        require_work(
            f"the rounds of {self.regime.method}, {'as a series' if series else 'one after another'},",
            lambda rounds: ((nodes_of(rounds) if series else rounds) - done) * operations,
            MOST / 100 if alone else MOST,
            hint + "; a run that a file keeps (--state) may take a day" * alone,
            rounds=self._last,
        )

    def _read(self, mark: str) -> dict[str, np.ndarray]:
        """The content of the file.

        Raises:
            ValueError: the file is no state of a run, belongs to another run or kernel, has bounds by other rules, or
                was changed.
        """
        assert self.file is not None
        kept, tiles = _read(self.file), self.regime.tiles
        other = (
            f"{self.file} is of another run (data, kernel, method, steps or rounds); name another file, or remove it"
        )
        if str(kept["mark"]) != mark:
            raise ValueError(other)
        if (version := str(kept.get("version", 1))) != str(VERSION):
            raise ValueError(
                f"{self.file} has error bounds by rules of version {version}, and the run would go on with rules of "
                f"version {VERSION}; name another file, or remove it"
            )
        if str(kept.pop("digest", "")) != _digest(kept):
            raise ValueError(f"{self.file} was changed after a run wrote it; name another file, or remove it")
        rounding = SAFE * (float(kept["rounding"]) + tiles.product_rounding)
        if not np.linalg.norm(kept["seen"] - tiles.fingerprint) <= rounding * np.sqrt(len(tiles)):
            raise ValueError(other)
        return kept

    def _mark(self) -> str:
        """The mark of the run, in which the kernel is represented by some of its rows."""
        digest, problem, tiles = hashlib.sha256(self.identity.encode()), self.regime.problem, self.regime.tiles
        rows = np.unique(np.linspace(0, len(tiles) - 1, ROWS).astype(int))
        for part in (problem.x, problem.y, problem.owner, tiles[rows].astype(tiles.dtype)):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        part = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {part.dtype} {part.shape} ".encode())
        digest.update(part.tobytes())
    return digest.hexdigest()


def _write(keep: Path, mark: str, arrays: Mapping[str, np.ndarray]) -> None:
    whole = dict(arrays) | {"mark": np.array(mark)}
    part = keep.with_name(f".{keep.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.savez(file, allow_pickle=False, digest=np.array(_digest(whole)), **whole)
        os.replace(part, keep)
    finally:
        part.unlink(missing_ok=True)


def _read(keep: Path) -> dict[str, np.ndarray]:
    try:
        with keep.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            return dict(file) | {"mark": file["mark"]}
    except (ValueError, KeyError, EOFError, OSError, RuntimeError, BadZipFile, zlib.error) as error:
        raise ValueError(f"{keep} is no state of a run: {error}; name another file, or remove it") from None
