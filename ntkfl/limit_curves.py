"""Learning curves of a federated method on a whole data set at infinite width: residual and accuracies by round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from jaxtyping import Float

from ntkfl.estimate import Estimate
from ntkfl.exact_dynamics import (
    KernelRegime,
    device_named,
    of_method,
    of_schedules,
    on_few_samples,
    require_round_map,
    steps_by_round,
)
from ntkfl.gram.tiles import UNIT, kernel_of
from ntkfl.limit.carried_errors import BoundedRound, Progress, run_together
from ntkfl.limit.infinite_width import Kernel, checked_rounds
from ntkfl.limit.kept_run import KeptRun
from ntkfl.limit.matrix_free import MatrixFreeRegime, require_tiles, shared_by_methods, tiles_of
from ntkfl.problem import Problem, Setup
from ntkfl.training.engine.local_plan import cohort_size

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["CurvePoint", "LimitCurves", "limit_curves", "several_limit_curves"]


@dataclass(frozen=True)
class CurvePoint:
    """A round's residual and accuracies.

    If the error bound leaves open whether a sample is classified correctly, the accuracy's interval covers both cases.

    Args:
        round: the round t.
        residual: |r(t)| divided by |y|.
        train: share of training samples that are classified correctly; None if the labels are no classes.
        test: share of test samples that are classified correctly; None without test samples.
        bounded: whether the errors are bounded; otherwise they are infinite.
    """

    round: int
    residual: Estimate
    train: Estimate | None
    test: Estimate | None
    bounded: bool

    def to_dict(self) -> dict[str, Any]:
        """Values and errors by name, for JSON; an error without a bound is None."""
        entries: dict[str, Any] = {"round": self.round}
        for name in ("residual", "train", "test"):
            estimate = getattr(self, name)
            entries[name] = None if estimate is None else float(estimate.value)
            entries[f"{name}_error"] = float(estimate.error) if estimate is not None and self.bounded else None
        return entries


@dataclass(frozen=True)
class LimitCurves:
    """The learning curves of a method on a data set at infinite width.

    Args:
        data: the name of the problem.
        method: the method's name.
        options: the options of the method.
        samples: n, the number of samples.
        clients: N, the number of clients.
        local_steps: K, or a list with K for each round if it changes.
        eta_local: the clients' step on the sum of their losses, or a list with the step for each round if it changes.
        eta_global: the server's step for each round; None if it is the server_rate of the options.
        tiles: the precision of the stored Gram matrix.
        participation: share of the clients in a round; if the share is below 1, the curves belong to the mean over
            draws.
        points: the rounds that are reported.
    """

    data: str
    method: str
    options: dict[str, Any]
    samples: int
    clients: int
    local_steps: int | list[int]
    eta_local: float | list[float]
    eta_global: list[float] | None
    tiles: str
    participation: float
    points: tuple[CurvePoint, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return {**asdict(replace(self, points=())), "points": [point.to_dict() for point in self.points]}


def limit_curves(
    problem: Problem,
    rounds: Sequence[int] | np.ndarray,
    gram: Kernel | None = None,
    method: str = "fl-ntk",
    options: Mapping[str, Any] | None = None,
    *,
    local_steps: int | Sequence[int] = 5,
    eta_local: float | Sequence[float] | None = None,
    eta_global: Sequence[float] | None = None,
    client_steps: Sequence[int] | None = None,
    participation: float = 1.0,
    tiles: bool | str = True,
    memmap: Path | None = None,
    cluster: Client | None = None,
    device: str | None = None,
    keep: Path | None = None,
    progress: Progress | None = None,
) -> LimitCurves:
    """Residual, training accuracy and test accuracy of the infinitely wide network at these rounds, from outputs 0.

    For plain averaging, many rounds together take few products with the Gram matrix; every other method is run round by
    round. A run that was killed continues from the file `keep`. The errors are bounded if `residual_estimate` has a
    bound for the method and its steps.

    Args:
        problem: data; there are accuracies only for labels that are one-hot (n, C), or +-1 (n,).
        rounds: the rounds to report.
        gram: a kernel (x, z) -> (p, n). Default: `ntkfl.gram.infinite`.
        method: as in `ntkfl.kernel_regime`; default: fl-ntk.
        options: options of the method, as in training; default the method's own.
        local_steps: K, or a schedule by round, whose last value holds for all later rounds; default 5.
        eta_local: step on the sum of a client's losses, or a schedule of it; None: 1 / max_c |H_cc|, which is half of
            the step at which a client alone diverges.
        eta_global: a schedule of the server's step, in place of the server_rate in the options; default none.
        client_steps: K_c of each client, (N,), in place of `local_steps`; default none.
        participation: share of the clients that a round draws; default 1. If the share is below 1, the curves belong to
            the mean of the outputs over all draws, and the method's server must use only the clients' mean
            displacement.
        tiles: True, "float64" or "float32".
        memmap: a file for the tiles, as in `ntkfl.kernel_regime`; by default they are in memory.
        cluster: the cluster whose workers hold the tiles, as in `ntkfl.kernel_regime`; default this machine.
        device: the device of torch that holds the tiles, as in `ntkfl.kernel_regime`; default none.
        keep: a file for the state of the run, from which a later call continues; default no file.
        progress: a function (done, total) that is called as the run goes on, with numbers of rounds or of terms of a
            series; `total` is constant; default None.

    Raises:
        ValueError: as `ntkfl.kernel_regime`; `rounds` with an entry that is not an integer from 0 to 2^53; a file
            `keep` that belongs to another run, or lies in a folder that does not exist; a participation outside (0, 1];
            a participation below 1 with a method whose server uses more than the clients' mean displacement; more than
            one place for the tiles (memmap, cluster, device).
        ClusterStopped: as `ntkfl.kernel_regime`; the file `keep` then has the rounds that were done.

    Source: docs/proofs/linear_methods.md#rounds-without-a-matrix.
    """
    (curves,) = several_limit_curves(
        problem,
        rounds,
        [(method, options or {})],
        gram,
        local_steps=local_steps,
        eta_local=eta_local,
        eta_global=eta_global,
        client_steps=client_steps,
        participation=participation,
        tiles=tiles,
        memmap=memmap,
        cluster=cluster,
        device=device,
        keep=keep,
        progress=progress,
    )
    return curves


def several_limit_curves(
    problem: Problem,
    rounds: Sequence[int] | np.ndarray,
    methods: Sequence[tuple[str, Mapping[str, Any]]],
    gram: Kernel | None = None,
    *,
    local_steps: int | Sequence[int] = 5,
    eta_local: float | Sequence[float] | None = None,
    eta_global: Sequence[float] | None = None,
    client_steps: Sequence[int] | None = None,
    participation: float = 1.0,
    tiles: bool | str = True,
    memmap: Path | None = None,
    cluster: Client | None = None,
    device: str | None = None,
    keep: Path | None = None,
    progress: Progress | None = None,
) -> list[LimitCurves]:
    """`limit_curves` of several methods.

    The products of all methods with the Gram matrix are computed together, so that it is read once for all of them.

    Args:
        problem: as in `limit_curves`.
        rounds: as in `limit_curves`, the same for every method.
        methods: name and options of each method; a name may occur twice.
        gram: as in `limit_curves`.
        local_steps: as in `limit_curves`; default 5.
        eta_local: as in `limit_curves`.
        eta_global: as in `limit_curves`.
        client_steps: as in `limit_curves`.
        participation: as in `limit_curves`; default 1.
        tiles: as in `limit_curves`.
        memmap: as in `limit_curves`.
        cluster: as in `limit_curves`.
        device: as in `limit_curves`.
        keep: as in `limit_curves`; with several methods the k-th method has a file of its own, NAME-k.npz for NAME.npz.
        progress: as in `limit_curves`, with the numbers of all methods together; default None.

    Raises:
        ValueError: as `limit_curves`; no method.
        ClusterStopped: as `limit_curves`.

    Source: docs/proofs/linear_methods.md#rounds-without-a-matrix.
    """
    t = np.unique(checked_rounds(rounds))
    if not t.size:
        raise ValueError("rounds is empty; name at least one round")
    if not methods:
        raise ValueError("methods is empty; name at least one method")
    if tiles not in (True, "float64", "float32"):
        raise ValueError(f"tiles is {tiles!r}; it is True, 'float64' or 'float32'")
    if keep is not None and not keep.parent.is_dir():
        raise ValueError(f"keep is {keep}, but there is no folder {keep.parent}; make it, or name another file")
    setup, schedules = _steps(eta_global, local_steps=local_steps, eta_local=eta_local)
    kernel = kernel_of(gram)
    require_tiles(tiles, memmap, cluster, device)
    few = on_few_samples(problem, setup, client_steps)
    for method, options in methods:
        _require_falling(
            _regime(few, method, options, participation, client_steps and client_steps[: few.problem.n], schedules)
        )
        require_round_map(problem, method, options)
    held = tiles_of(problem, kernel, tiles, memmap, cluster, device_named(device), len(t), len(methods))
    assert held is not None
    base = KernelRegime(problem, setup, cast(np.ndarray, held), kernel)
    if eta_local is None:
        first, base = base, replace(base, setup=replace(base.setup, eta_local=base._local_limit() / 2))
        vars(base).update(first._decomposed)
    vars(base).update(shared_by_methods(held, base._clients))
    regimes = [_regime(base, method, options, participation, client_steps, schedules) for method, options in methods]
    done_by_run: dict[int, int] = {}

    def tell(number: int, done: int) -> None:
        done_by_run[number] = done
        if progress is not None:
            progress(sum(done_by_run.values()), total)

    runs = []
    files: Sequence[Path | None] = kept_files(keep, len(methods)) or [None] * len(methods)
    for number, (regime, (_, options), own) in enumerate(zip(regimes, methods, files, strict=True)):
        cohort = regime.work.cohort
        identity = f"{regime.method} {sorted(options.items())} {regime.setup} {held.dtype} {t.tolist()}"
        identity += (
            f" {None if client_steps is None else list(client_steps)} {cohort} with images, norms and both errors"
        )
        identity += "".join(f" {name} {by_round}" for name, by_round in schedules.items())
        runs.append(KeptRun(regime, t, regime._labels, file=own, identity=identity, progress=partial(tell, number)))
    for run in runs:  # every method is checked before anything is computed for any method
        run.recall()
    for regime, run in zip(regimes, runs, strict=True):
        _require_falling(regime)
        run.prepare()
    total = sum(run.steps for run in runs)
    states = run_together(held.__matmul__, [run.asking() for run in runs])
    tests = _tested(regimes[0], [state for run in states for state in run])
    return [
        LimitCurves(
            problem.name,
            regime.method,
            dict(options),
            problem.n,
            problem.n_clients,
            schedules.get("local_steps", base.setup.local_steps),
            schedules.get("eta_local", base.setup.eta_local),
            schedules.get("eta_global"),
            str(held.dtype),
            participation,
            tuple(_points(regime, t, run, tests[i * len(t) : (i + 1) * len(t)])),
        )
        for i, (regime, (_, options), run) in enumerate(zip(regimes, methods, states, strict=True))
    ]


def kept_files(keep: Path | None, methods: int) -> list[Path]:
    """The file of the run of each method; the list is empty without `keep`."""
    if keep is None or methods == 1:
        return [] if keep is None else [keep]
    return [keep.with_stem(f"{keep.stem}-{number + 1}") for number in range(methods)]


def _steps(eta_global: Sequence[float] | None, **numbers: Any) -> tuple[Setup, dict[str, Any]]:
    """A `Setup` with the constant steps, and the schedules of the other steps by name."""
    fixed = {name: value for name, value in numbers.items() if isinstance(value, Real)}
    setup, schedules = Setup(**cast(Any, fixed)), {**numbers, "eta_global": eta_global}
    by_round = {name: value for name, value in schedules.items() if name not in fixed and value is not None}
    return setup, {name: list(steps_by_round(name, value, setup)) for name, value in by_round.items()}


def _regime(
    base: KernelRegime,
    method: str,
    options: Mapping[str, Any],
    participation: float,
    client_steps: Sequence[int] | None,
    schedules: Mapping[str, Any],
) -> MatrixFreeRegime:
    cohort = cohort_size(base.problem.n_clients, participation)
    some = cohort if cohort < base.problem.n_clients else None
    of = of_schedules if schedules else of_method
    steps: dict[str, Any] = {"client_steps": client_steps, **schedules}
    regime = cast(MatrixFreeRegime, of(base, method, options, cohort=some, **steps))
    if some is not None and regime.round.server is None:
        raise ValueError(
            f"participation is {participation:g}; if clients are drawn, there are curves only of methods whose server "
            "uses the mean displacement alone (fl-ntk, fedavg, fedprox, fedavgm, fednova), and not of "
            f"{regime.method}. ntkfl.random_rounds has the mean of its rounds, if the Gram matrix fits the memory"
        )
    return regime


def _require_falling(regime: MatrixFreeRegime) -> None:
    if regime.step_warning:
        raise ValueError(f"the residual grows: {regime.step_warning}")


def _tested(regime: MatrixFreeRegime, run: list[BoundedRound]) -> list[Estimate | None]:
    """The test accuracy in each round; the kernel between test samples and training samples is computed once for all
    rounds.
    """
    problem = regime.problem
    if problem.x_test is None:
        return [None] * len(run)
    assert problem.y_test is not None
    labels = problem.y_test.reshape(len(problem.y_test), -1)
    outputs = zip(*regime._predicted_within(problem.x_test, run), strict=True)
    return [accuracy(value, labels, error) for value, error in outputs]


def _points(
    regime: MatrixFreeRegime, t: np.ndarray, run: list[BoundedRound], tests: list[Estimate | None]
) -> Iterator[CurvePoint]:
    y = regime._labels
    size = float(np.linalg.norm(y)) or 1.0
    for now, state, test in zip(t.tolist(), run, tests, strict=True):
        bounded = bool(np.isfinite(state.norm_error))
        length = float(np.linalg.norm(state.residual))
        # rounding of the norm and of the quotient
        off = state.norm_error + (y.size + 8) * UNIT * length if bounded else np.inf
        yield CurvePoint(
            now,
            Estimate(length / size, off / size, "errors of tiles carried along"),
            accuracy(y - state.residual, y, np.full(len(y), state.entry_error)),
            test,
            bounded,
        )


def accuracy(
    outputs: Float[np.ndarray, "n C"], labels: Float[np.ndarray, "n C"], error: Float[np.ndarray, " n"]
) -> Estimate | None:
    """The share of samples that are classified correctly; None if the labels are no classes.

    A sample is classified correctly if its largest output belongs to its class, or if its only output has the sign of
    its label. Labels are one-hot, or one column of +-1. If an output's error is not known, the error of the share is
    infinite.
    """
    if labels.shape[1] == 1:
        if not np.isin(labels, (-1.0, 1.0)).all():
            return None
        ahead = (outputs * labels)[:, 0]
    else:
        hot = labels == labels.max(axis=1, keepdims=True)
        if not (hot.sum(axis=1) == 1).all():
            return None
        ahead = (outputs[hot] - np.where(hot, -np.inf, outputs).max(axis=1)) / 2
    right = float((ahead > 0).mean())
    if not np.isfinite(error).all():
        return Estimate(right, np.inf, "no error bound")
    lo, hi = float((ahead > error).mean()), float((ahead >= -error).mean())
    return Estimate(right, max(right - lo, hi - right), "errors of tiles carried along")
