"""The kernel regime: the exact dynamics of a federated method, for the Gram matrix at infinite width or any other."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from ntkfl.extensions import is_file
from ntkfl.gram.tiles import FeatureGram, Features, HeldGram, kernel_of
from ntkfl.limit.convex_loss import LOSSES, ConvexLoss
from ntkfl.limit.convex_regime import ConvexRegime
from ntkfl.limit.draws import SampledRounds
from ntkfl.limit.infinite_width import (
    Kernel,
    KernelRegime,
    StepLimits,
    UnstableSteps,
    algorithm1_limit,
    warn_if_unstable,
)
from ntkfl.limit.linear_regime import LinearRegime, MovingWindow, Schedule, WindowedRegime
from ntkfl.limit.linear_round import Blocks
from ntkfl.limit.matrix_free import MatrixFreeRegime, require_tiles, shared_by_methods, tiles_of
from ntkfl.limit.random_regime import Noise, RandomRegime, random_regime
from ntkfl.limit.scheduled_rounds import ScheduledRegime, drawn_memory_regime
from ntkfl.limit.shuffled_pass import shuffled_blocks
from ntkfl.messages import is_number, require_size
from ntkfl.problem import LARGE, Problem, Setup, require_magnitudes
from ntkfl.training.engine.local_plan import cohort_size

if TYPE_CHECKING:
    import torch
    from distributed import Client

FEW, STEP = 3, 1e-3  # for `on_few_samples`: the number of clients, and eta_local times every entry of H
REMEMBERED = 4  # the largest number of regimes that are kept for the rounds of a schedule

__all__ = [
    "ConvexLoss",
    "ConvexRegime",
    "KernelRegime",
    "LinearRegime",
    "MatrixFreeRegime",
    "MovingWindow",
    "RandomRegime",
    "SampledRounds",
    "StepLimits",
    "UnstableSteps",
    "WindowedRegime",
    "kernel_regime",
    "random_rounds",
    "sampled_rounds",
    "warn_if_unstable",
]


@overload
def kernel_regime(
    problem: Problem, setup: Setup, gram: ArrayLike | Kernel | None = None, method: Literal["fl-ntk"] = "fl-ntk"
) -> KernelRegime: ...


@overload
def kernel_regime(
    problem: Problem,
    setup: Setup,
    gram: ArrayLike | Kernel | None = None,
    *,
    loss: str | ConvexLoss,
    matrix_free: bool | Literal["auto", "float64", "float32"] = False,
) -> ConvexRegime: ...


@overload
def kernel_regime(
    problem: Problem,
    setup: Setup,
    gram: ArrayLike | Kernel | None = None,
    method: str = "fl-ntk",
    options: Mapping[str, Any] | None = None,
    momentum: float = 0.0,
    *,
    client_steps: Sequence[int] | None = None,
    step_factors: Sequence[float] | None = None,
    eta_local: Sequence[float] | None = None,
    eta_global: Sequence[float] | None = None,
    local_steps: Sequence[int] | None = None,
    ima: MovingWindow | None = None,
    matrix_free: Literal[False, "auto"] = False,
) -> KernelRegime | LinearRegime: ...


@overload
def kernel_regime(
    problem: Problem,
    setup: Setup,
    gram: Kernel | None = None,
    method: str = "fl-ntk",
    options: Mapping[str, Any] | None = None,
    momentum: float = 0.0,
    *,
    client_steps: Sequence[int] | None = None,
    step_factors: Sequence[float] | None = None,
    eta_local: Sequence[float] | None = None,
    eta_global: Sequence[float] | None = None,
    local_steps: Sequence[int] | None = None,
    matrix_free: Literal[True, "float64", "float32"],
    memmap: Path | None = None,
    cluster: "Client | None" = None,
    device: str | None = None,
) -> MatrixFreeRegime: ...


def kernel_regime(
    problem: Problem,
    setup: Setup,
    gram: ArrayLike | Kernel | None = None,
    method: str = "fl-ntk",
    options: Mapping[str, Any] | None = None,
    momentum: float = 0.0,
    *,
    client_steps: Sequence[int] | None = None,
    step_factors: Sequence[float] | None = None,
    eta_local: Sequence[float] | None = None,
    eta_global: Sequence[float] | None = None,
    local_steps: Sequence[int] | None = None,
    ima: MovingWindow | None = None,
    loss: str | ConvexLoss | None = None,
    matrix_free: bool | Literal["auto", "float64", "float32"] = False,
    memmap: Path | None = None,
    cluster: "Client | None" = None,
    device: str | None = None,
) -> KernelRegime | LinearRegime | ConvexRegime:
    """The exact dynamics of a federated method at infinite width, or in the kernel regime of any other Gram matrix.

    Every method trains on full batches of all clients, each client on its sum of squares, as Algorithm 1 of FL-NTK
    ("fl-ntk") does. If the steps are beyond the stability limit, a warning gives the limits (UnstableSteps, a
    UserWarning).

    Algorithm 1 on another convex `loss` is exact too. A recursion over the rounds then takes the place of a matrix, and
    the regime's method `bound` bounds the mean loss of the first rounds without this recursion. In this case the
    warning is about steps for which the bound does not hold.

    Every regime has the methods and properties of `KernelRegime`. If a regime cannot compute an attribute, an
    AttributeError is raised. Its message says why, and names the regime that has the attribute.

    Args:
        problem: data; labels may have several outputs.
        setup: eta_local, eta_global, local_steps and rounds are used. eta_local is a step on sums of squares, and
            eta_global is the server_rate of any method that has one (docs/glossary.md#steps).
        gram: H, (n, n), such as a finite network's H(0); or a kernel (x, z) -> (n, p), such as `ntkfl.gram.deep`, which
            gives H and the values at other points for predictions. Default: `ntkfl.gram.infinite`. For several outputs
            that are not independent, H is (n C, n C), sample by sample, and the problem is `problem.per_output()`. A
            kernel is then called with the n samples, not with the n C rows of `problem.per_output()`. Its values are
            those of one output or those of all outputs.
        method: the method's name, or a file of yours; default fl-ntk.
        options: options of the method, as in training, with server_rate in place of eta_global; default the method's
            own.
        momentum: momentum of the clients' steps, which begins anew in each round, as in training; default 0.
        client_steps: K_c, the number of local steps of each client, (N,), in place of `setup.local_steps`.
        step_factors: factors of eta_local in the first, second, ... local step. The last factor holds for all later
            steps. Default: all factors are 1.
        eta_local: eta_local in rounds 0, 1, ...; the last value holds for all later rounds. `rate`, `stable`, the
            limits and the spectrum then describe these later rounds only. Default: the setup's step in every round.
        eta_global: the server's steps in rounds 0, 1, ..., in the same way; default the setup's.
        local_steps: the numbers of local steps in rounds 0, 1, ..., in the same way; not together with client_steps;
            default the setup's.
        ima: a moving average (window) of the server's models, which is sent to the clients or only evaluated; None: no
            average.
        loss: "logistic": log(1 + exp(-y f)), labels -1 and +1; "squares": (f - y)^2 / 2; or a `ConvexLoss` of yours;
            default squares, solved in closed form.
        matrix_free: whether rounds take products with tiles (square pieces) of H in place of the eigenvectors of H;
            default False. Tiles take half the memory of H or less, but `rate` and `stable` may then be unknown. "auto":
            tiles are used only if the eigenvectors do not fit the memory. "float64", "float32": the type of the tiles'
            entries; True: float64 if such tiles fit, otherwise float32. A kernel function is tested for symmetry. H_ij
            is compared with H_ji for the pairs within every block of 2048 successive samples, and for 64 by 64 pairs of
            each block with the samples before it. All other pairs count as symmetric.
        memmap: a file that holds the tiles in place of memory. Disk space for it is taken before the work begins. If
            the file already has tiles of the same samples, kernel and type, for example because an earlier process was
            killed, the missing tiles are added; a complete file is only read. One row in 256 is computed again, to see
            that the kernel is the same.
        cluster: a `distributed.Client` of a Dask cluster, whose workers hold the tiles in place of this process. Each
            worker holds some rows. Default: this process. The numbers are the same to the bit if each worker has as
            many BLAS threads as this process (Dask's default is 1). Workers that die are replaced by the others.
        device: a device of torch that holds and multiplies the tiles, "cuda", "cuda:1" or "cpu"; default numpy in this
            process. The entries of the tiles, the clients' blocks and the rest of a round are still computed by this
            machine's processors. Numbers change by rounding at most.

    Raises:
        ValueError: client_steps that are not one positive integer for each client; step_factors that are not positive;
            a window on a method whose clients train in turn, or together with a schedule; an empty schedule, or a
            schedule with a value that is no step; a schedule, if the method's memory comes from a round that the engine
            simulates. A Gram matrix of the wrong size, not finite, not symmetric or not positive semi-definite.
            Symmetry is tested to 1e-12 of the largest entry, and a smaller asymmetry is averaged out; negative
            eigenvalues are tested to 1e-12 of the matrix's norm. An unknown method or option; a method that is not
            linear in the weights (the message says why); eta_global together with a server_rate, or for a method that
            has no server_rate. An unknown loss, labels that it does not take, a loss together with another method,
            momentum, steps or window. Labels whose squares vanish or overflow; rows of x whose squares vanish or
            overflow, if no `gram` is given. With matrix_free: a matrix for `gram`, a window, a problem `per_output`, a
            kernel that is complex, a kernel for which a compared pair has H_ij and H_ji that differ, or tiles that do
            not fit the memory (of a worker).
        OverflowError: steps of another method than fl-ntk with which one round overflows float64.
        ClusterStopped: the cluster is lost, has no workers, or its workers run other code.

    Source: docs/proofs/linear_methods.md#state-maps; docs/proofs/convex_loss.md#the-recursion.

    Example:
        >>> import ntkfl
        >>> regime = ntkfl.kernel_regime(ntkfl.data.sphere(), ntkfl.Setup(eta_local=0.5, local_steps=2))
        >>> regime.rounds_to(0.1)
        10
    """
    steps: dict[str, Any] = {"client_steps": client_steps, "step_factors": step_factors}
    named = {"eta_local": eta_local, "eta_global": eta_global, "local_steps": local_steps}
    schedules: dict[str, Any] = {name: schedule for name, schedule in named.items() if schedule is not None}
    regime: KernelRegime | LinearRegime | ConvexRegime
    unlike = client_steps is not None or step_factors is not None
    another = method != "fl-ntk" or options or momentum or ima or schedules or unlike
    if loss is not None:
        if another:
            raise ValueError(
                f"loss is {loss!r}; only Algorithm 1 without changes takes a loss: leave out method, options, "
                "momentum, client_steps, step_factors, ima and schedules"
            )
        loss = _loss_of(loss, problem)
    if schedules and ima:
        raise ValueError(f"ima is {ima} with schedules ({', '.join(schedules)}); a moving window needs equal rounds")
    # Methods and options are tried before the Gram matrix is computed. With a whole matrix, the methods of a user's
    # file are not tried, since such a method may fit only the number of clients that the problem has.
    if another and (matrix_free or not is_file(method)):
        few = on_few_samples(problem, setup, client_steps)
        some = steps | {"client_steps": client_steps and client_steps[: few.problem.n]}
        (of_schedules if schedules else of_method)(few, method, options or {}, momentum, **some, **schedules)
        require_round_map(problem, method, options or {}, momentum)
    if ima:
        _require_window(method, options or {}, ima)
    regime = base = base_regime(problem, setup, gram, matrix_free, ima, memmap, cluster, device)
    if loss is not None:
        regime = ConvexRegime(base.problem, base.setup, base.gram, base.kernel, loss=loss)
    elif another or isinstance(base.gram, HeldGram):
        other = (of_schedules if schedules else of_method)(base, method, options or {}, momentum, **steps, **schedules)
        _require_one_round(other)
        regime = WindowedRegime.of(other, ima) if ima else other
    if regime.step_warning:
        warnings.warn(regime.step_warning, UnstableSteps, stacklevel=2)
    return regime


def base_regime(
    problem: Problem,
    setup: Setup,
    gram: ArrayLike | Kernel | None,
    matrix_free: bool | str,
    ima: MovingWindow | None = None,
    memmap: Path | None = None,
    cluster: "Client | None" = None,
    device: str | None = None,
) -> KernelRegime:
    """The regime of Algorithm 1, with the whole Gram matrix or with tiles.

    Tiles give products with the matrix, and blocks of the matrix, but no eigenvectors.

    Raises:
        ValueError: as `kernel_regime`; tiles together with a moving window.
    """
    memmap = None if memmap is None else Path(memmap)
    require_tiles(matrix_free, memmap, cluster, device)
    if not ima and (gram is None or callable(gram)):
        kernel = kernel_of(gram)
        require_magnitudes(problem, rows=gram is None)
        if tiles := tiles_of(problem, kernel, matrix_free, memmap, cluster, device_named(device)):
            return KernelRegime(problem, setup, cast(np.ndarray, tiles), kernel)
    elif matrix_free not in (False, "auto"):
        not_for = "a moving window" if ima else "a matrix for gram"
        raise ValueError(
            f"matrix_free is {matrix_free!r} with {not_for}; it needs a kernel (x, z) -> (p, n), and no window"
        )
    return algorithm1_limit(problem, setup, gram)


def on_few_samples(
    problem: Problem, setup: Setup, client_steps: Sequence[int] | None, clients: int = FEW
) -> KernelRegime:
    """Algorithm 1 on one sample of each of a few clients, to refuse methods and options before H is computed.

    Every entry of these samples' kernel is 1e-3 / eta_local. So eta_local times an entry is 1e-3, which is so small
    that no steps are beyond their limit. So the entries are large if eta_local is small. Such large entries are needed,
    because problems with large rows have a small eta_local and a large pull to the start, such as mu of FedProx. With a
    small kernel the rounding errors of this pull would be so large, beside the kernel, that a linear round would not be
    recognised as linear.

    Raises:
        ValueError: client_steps that are not one positive integer for each client.
    """
    if client_steps is not None:
        _one_a_client(client_steps, problem.n_clients)
    first = [int(np.argmax(problem.owner == client)) for client in range(min(clients, problem.n_clients))]
    few = Problem(problem.x[first], problem.y[first], np.arange(len(first)))
    feature = np.sqrt(STEP / setup.eta_local) if setup.eta_local else 1.0
    kernel = Features(lambda x: np.full((len(x), 1), feature), 1)
    return KernelRegime(few, setup, cast(np.ndarray, FeatureGram.by(kernel, few.x)), kernel)


def require_round_map(problem: Problem, method: str, options: Mapping[str, Any], momentum: float = 0.0) -> None:
    """Refuse a method whose round the engine must differentiate, if the matrix of its round does not fit the memory.

    The state may have vectors for each client. Rounds of two and of three clients show how many vectors these are.

    Raises:
        TooLittleMemory: as `ntkfl.memory.require`.
    """
    from ntkfl.training.engine.linear_rounds import state_vectors

    def vectors(clients: int) -> int:
        return state_vectors(method, on_few_samples(problem, Setup(), None, clients).blocks, momentum, options)

    least, most = (vectors(clients) for clients in (FEW - 1, FEW))
    if most:
        from ntkfl.training.engine.differentiated_round import require_map  # this imports PyTorch

        require_map(method, problem.n, most + max(0, problem.n_clients - FEW) * (most - least))


def device_named(name: str | None) -> "torch.device | None":
    """The device of this name; a ValueError if there is none."""
    if name is None:
        return None
    from ntkfl.training.engine.devices import torch_device  # this imports torch, which tiles of numpy do not need

    return torch_device(name)


def of_method(
    regime: KernelRegime,
    method: str,
    options: Mapping[str, Any],
    momentum: float = 0.0,
    cohort: int | None = None,
    *,
    client_steps: Sequence[int] | None = None,
    step_factors: Sequence[float] | None = None,
    blocks: Blocks | None = None,
) -> LinearRegime:
    """The regime of another method with the same data, Gram matrix and steps; both regimes share the decomposition.

    `regime` is the regime of Algorithm 1; the regime's eta_global becomes the server_rate of the method. With a
    `cohort` the result is the mean over the draws of clients. `blocks` describes the parts of a round; by default they
    are the parts of a round of `regime` with these steps.

    Raises:
        ValueError: as `kernel_regime`. There is no warning of unstable steps.
    """
    from ntkfl.training.engine.linear_rounds import linear_round
    from ntkfl.training.methods import module_of, options as options_of
    from ntkfl.training.optimizers import SGD

    setup, name = regime.setup, module_of(method).NAME
    regime, options = _server_step_in_options(regime, method, options)
    steps = () if client_steps is None else _one_a_client(client_steps, regime.problem.n_clients)
    setup = replace(setup, local_steps=max(steps, default=setup.local_steps))
    factors = SGD(factors=tuple(step_factors or ())).factors  # SGD checks the factors
    if blocks is None:
        blocks = replace(regime.blocks, steps=setup.local_steps, cohort=cohort, client_steps=steps, factors=factors)
    with np.errstate(over="ignore", invalid="ignore"):  # `_require_one_round` reports an overflow
        of_one_round = linear_round(method, blocks, momentum, options)
    shared = (regime.problem, setup, regime.gram, regime.kernel)

    def at_server_rate(rate: float) -> LinearRegime:
        changed = {**options, "server_rate": rate}
        same = {"client_steps": client_steps, "step_factors": step_factors, "blocks": blocks}
        return of_method(regime, method, changed, momentum, cohort, **same)  # type: ignore[arg-type]

    has_rate = of_one_round.server_rate is None and "server_rate" in options_of(method)
    own = {"method": name, "round": of_one_round, "step_factors": factors}
    other: LinearRegime
    if isinstance(regime.gram, HeldGram):
        other = MatrixFreeRegime(*shared, **own, work=blocks)
    else:
        other = LinearRegime(*shared, **own, at_server_rate=at_server_rate if has_rate else None)
    vars(other).update(regime._decomposed | {"_clients": blocks.clients})
    return other


def of_schedules(
    base: KernelRegime,
    method: str,
    options: Mapping[str, Any],
    momentum: float = 0.0,
    *,
    eta_local: Sequence[float] | None = None,
    eta_global: Sequence[float] | None = None,
    local_steps: Sequence[int] | None = None,
    **steps: Any,
) -> LinearRegime:
    """The regime of a method whose steps change with the round, with the same data and Gram matrix.

    Raises:
        ValueError: as `kernel_regime`. There is no warning of unstable steps.
    """
    if local_steps is not None and steps.get("client_steps") is not None:
        raise ValueError("local_steps is a schedule and client_steps are given; give one of them")
    named = {"eta_local": eta_local, "local_steps": local_steps}
    setup_of, settled = _setups_by_round(base.setup, method, options, eta_global=eta_global, **named)
    shared = base._decomposed
    if isinstance(base.gram, HeldGram):
        shared = shared_by_methods(base.gram, base._clients) | shared

    @lru_cache(REMEMBERED)
    def of_setup(setup: Setup) -> LinearRegime:
        own = replace(base, setup=setup)
        vars(own).update(shared)
        return of_method(own, method, options, momentum, **steps)

    def of_round(number: int) -> LinearRegime:
        return of_setup(setup_of(number))

    last = of_round(settled)
    if last.round.length is not None and settled:
        raise ValueError(
            f"the memory of {last.method} comes from a round that the engine simulates, in coordinates that depend on "
            "the steps of that round. A schedule needs a method whose module defines its linear round, and clients "
            "without momentum"
        )
    scheduled = replace(last, before=Schedule(settled, of_round))
    vars(scheduled).update(last._decomposed)
    return scheduled


def _require_one_round(regime: LinearRegime) -> None:
    """Refuse steps for which one round gives outputs whose squares overflow float64."""
    probe = np.cos(np.arange(regime.problem.n))[:, None]  # a vector with a part in every direction
    with np.errstate(over="ignore", invalid="ignore"):
        move, memory = regime.round.onward(probe, regime._empty(probe), np.zeros_like(probe))
    if not all(np.abs(part).max() <= LARGE for part in (move, *memory)):
        below = regime._local_limit(regime.round.pull)
        raise OverflowError(
            f"{regime._setting} overflows float64 within one round; eta_local < {below:.6g} together with a smaller "
            "server step does not"
        )


def _server_step_in_options(
    regime: KernelRegime, method: str, options: Mapping[str, Any]
) -> tuple[KernelRegime, dict[str, Any]]:
    """The regime at eta_global 1, and the options with the given eta_global as server_rate.

    Both regimes share the decomposition.
    """
    from ntkfl.training.methods import with_eta_global

    own = with_eta_global(method, options, regime.setup.eta_global)
    if regime.setup.eta_global == 1:
        return regime, own
    other = replace(regime, setup=replace(regime.setup, eta_global=1.0))
    vars(other).update(regime._decomposed)
    return other, own


def _require_window(method: str, options: Mapping[str, Any], window: MovingWindow) -> None:
    """Refuse methods that cannot have a moving window."""
    from ntkfl.training.engine.ima import averaged
    from ntkfl.training.methods import build
    from ntkfl.training.objectives import HalfSquares

    averaged(build(method, HalfSquares("sum"), **options), window.size, window.start)


def _one_a_client(steps: Sequence[int], clients: int) -> tuple[int, ...]:
    counts = tuple(steps)
    if len(counts) != clients or not all(isinstance(count, Integral) and count >= 1 for count in counts):
        raise ValueError(
            f"client_steps are {list(counts)}; there must be a positive integer for each of {clients} clients"
        )
    return tuple(map(int, counts))


def random_rounds(
    problem: Problem,
    setup: Setup,
    gram: ArrayLike | Kernel | None = None,
    method: str = "fl-ntk",
    options: Mapping[str, Any] | None = None,
    *,
    participation: float = 1.0,
    batch_size: int | None = None,
    shuffled: bool = False,
    noise: float = 0.0,
    eta_local: Sequence[float] | None = None,
    eta_global: Sequence[float] | None = None,
    local_steps: Sequence[int] | None = None,
    cohorts: Sequence[Sequence[int]] | None = None,
) -> RandomRegime:
    """The exact mean and covariance, in the kernel regime, of random rounds, which draw clients, batches or noise.

    A round draws its clients without replacement. A local step draws its batch without replacement, independently of
    the other steps. A local step takes n_c/b times the gradient of the batch's sum of squares, where b is the number of
    samples in the batch; the mean of this product over the draws is the client's gradient. If `shuffled`, a local step
    is instead a pass over all samples in a random order, with such a step for each batch. If the mean square of the
    residual grows, there is a warning (UnstableSteps).

    Args:
        problem: data.
        setup: steps, as in `kernel_regime`.
        gram: H, shape (n, n), or its kernel; default: H_inf of FL-NTK's network.
        method: fl-ntk (default, as in `kernel_regime`), fedavg, fedprox, fedavgm, fednova, scaffold, feddyn, or a file
            of yours whose linear round has a `server`.
        options: options of the method, as in training; default the method's own.
        participation: share of the clients in a round, as in training; default 1.
        batch_size: number of samples in a local step; a client with no more samples than that takes all of them. None:
            all samples.
        shuffled: whether local_steps counts passes over the client's samples, each in batches of a new random order. If
            b does not divide n_c, the last batch has b' < b samples and takes n_c/b' times its gradient. In
            batches of one a client may have up to 14 samples, or up to 13 if the method corrects the clients' gradients
            or pulls clients back to the start of the round. The largest such clients take half a minute.
        noise: standard deviation of the Gaussian noise that the server adds to every weight of the clients' mean
            displacement, independently in every round, as differentially private training does; default 0.
            Differentially private training also clips displacements; the moments hold for it only while every
            displacement is below the clipping norm.
        eta_local: eta_local in rounds 0, 1, ..., in place of the setup's; the last value holds for all later rounds.
        eta_global: the server's steps, in the same way; default the setup's.
        local_steps: the numbers of local steps (of passes, if `shuffled`), in the same way; default the setup's.
        cohorts: for each of rounds 0, 1, ... a list of the numbers of one or several clients. After the last cohort the
            first cohort has its turn again. Default: clients are drawn.

    Raises:
        ValueError: as `kernel_regime`; cohorts that are empty, name a client twice or an unknown client, or come with a
            participation; a schedule that is empty or has a value that is no step. A method whose clients train one
            after the other or do more than plain steps, or whose weights in the mean depend on more than the clients'
            shares. A participation outside (0, 1], a batch_size below 1 or above every client's number of samples, a
            noise that is negative or not finite. Shuffled passes without a batch_size, or with too many orders to be
            counted; fednova with passes of different numbers of batches. So many samples that the moments do not fit
            the memory; `sampled_rounds` takes more samples.
        OverflowError: steps with which one round overflows float64.

    Source: docs/proofs/random_rounds.md#second-moments-of-a-round.

    Example:
        >>> import ntkfl
        >>> regime = ntkfl.random_rounds(ntkfl.data.sphere(), ntkfl.Setup(eta_local=0.5), participation=0.5)
        >>> regime.outputs(3).shape
        (8,)
    """
    regime = random_of_method(
        algorithm1_limit(problem, setup, gram),
        method,
        options or {},
        participation=participation,
        batch_size=batch_size,
        shuffled=shuffled,
        noise=noise,
        eta_local=eta_local,
        eta_global=eta_global,
        local_steps=local_steps,
        cohorts=cohorts,
    )
    if regime.step_warning:
        warnings.warn(regime.step_warning, UnstableSteps, stacklevel=2)
    return regime


def sampled_rounds(
    problem: Problem,
    setup: Setup,
    rounds: ArrayLike,
    gram: ArrayLike | Kernel | None = None,
    method: str = "fl-ntk",
    options: Mapping[str, Any] | None = None,
    *,
    runs: int = 100,
    seed: int = 0,
    initial_outputs: ArrayLike | None = None,
    **drawn: Any,
) -> SampledRounds:
    """Runs of random rounds, which give estimates with errors.

    Such runs can be computed for more samples than the exact moments, which need more time and memory. The result
    equals the result of `random_rounds(...).sampled(...)`, without the search for the stable steps, and so without a
    warning.

    Args:
        problem: data.
        setup: steps, as in `kernel_regime`.
        rounds: numbers of rounds t >= 0, an integer or an array.
        gram: H, shape (n, n), or its kernel; default: H_inf of FL-NTK's network.
        method: as `random_rounds`; default fl-ntk.
        options: options of the method, as in training; default the method's own.
        runs: number of runs, 2 or more; default 100.
        seed: the seed of the draws; default 0.
        initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.
        drawn: participation, batch_size and so on, by name, as in `random_rounds`.

    Raises:
        ValueError: as `random_rounds`; fewer than 2 runs.
        TypeError: a keyword that `random_rounds` does not have.
        OverflowError: a run passes the largest float64.

    Source: docs/proofs/random_rounds.md#the-loss-of-a-run.

    Example:
        >>> import ntkfl
        >>> rounds = ntkfl.sampled_rounds(ntkfl.data.sphere(), ntkfl.Setup(eta_local=0.5), [1, 10], participation=0.5)
        >>> rounds.mean_square.value.shape
        (2,)
    """
    known = [name for name, of in signature(random_rounds).parameters.items() if of.kind is of.KEYWORD_ONLY]
    for name in drawn:
        if name not in known:
            raise TypeError(
                f"sampled_rounds has no argument {name!r}; the arguments that say what is drawn are {', '.join(known)}"
            )
    regime = algorithm1_limit(problem, setup, gram)
    return random_of_method(regime, method, options or {}, **drawn).sampled(rounds, runs, seed, initial_outputs)


def random_of_method(
    regime: KernelRegime,
    method: str,
    options: Mapping[str, Any],
    *,
    eta_local: Sequence[float] | None = None,
    eta_global: Sequence[float] | None = None,
    local_steps: Sequence[int] | None = None,
    cohorts: Sequence[Sequence[int]] | None = None,
    participation: float = 1.0,
    **drawn: Any,
) -> RandomRegime:
    """The random rounds of a method with the same data, Gram matrix and steps; both regimes share the decomposition.

    Raises:
        ValueError: as `random_rounds`. There is no warning of unstable steps, and no search for their limit.
    """
    if eta_local is eta_global is local_steps is cohorts is None:
        return _of_one_round(regime, method, options, participation=participation, **drawn)
    named = {"eta_local": eta_local, "local_steps": local_steps}
    setup_of, settled = _setups_by_round(regime.setup, method, options, eta_global=eta_global, **named)
    turns = [()] if cohorts is None else _turns(cohorts, regime.problem.n_clients, participation)

    @lru_cache(len(turns) + 1)
    def of_steps(setup: Setup, given: tuple[int, ...]) -> RandomRegime:
        return _of_one_round(regime.at(setup), method, options, participation=participation, given=given, **drawn)

    def of_round(number: int) -> RandomRegime:
        return of_steps(setup_of(number), turns[number % len(turns)])

    last = of_round(settled)
    shared = (last.problem, last.setup, last.gram, last.kernel)
    turning: dict[str, Any] = {"of_round": of_round, "settled": settled, "period": len(turns)}
    busiest = max(setup_of(number).local_steps for number in range(settled + 1))
    return ScheduledRegime(*shared, mean=last.mean, noise=last.noise, busiest=busiest, **turning)


def _setups_by_round(
    setup: Setup, method: str, options: Mapping[str, Any], *, eta_global: Sequence[float] | None, **others: Any
) -> tuple[Callable[[int], Setup], int]:
    """The function that gives the setup of a round, and the round from which on the setup is constant.

    The schedules are checked.
    """
    from ntkfl.training.methods import with_eta_global

    if eta_global is not None and "server_rate" in options:
        raise ValueError(f"eta_global is a schedule and server_rate {options['server_rate']!r}; give one of them")
    steps = {name: steps_by_round(name, given, setup) for name, given in ({"eta_global": eta_global} | others).items()}
    for rate in set(steps["eta_global"]):
        with_eta_global(method, options, rate)

    def of_round(number: int) -> Setup:
        return replace(setup, **{name: given[min(number, len(given) - 1)] for name, given in steps.items()})

    return of_round, max(map(len, steps.values())) - 1


def steps_by_round(name: str, steps: Sequence[float] | None, setup: Setup) -> tuple[Any, ...]:
    """The checked schedule of steps by round; if none is given, a schedule that has only the setup's step."""
    if steps is None:
        return (getattr(setup, name),)
    if isinstance(steps, Real | str) or not len(steps):
        raise ValueError(f"{name} is {steps!r}; a schedule is a sequence of at least one step")
    return tuple(getattr(replace(setup, **{name: cast(Any, step)}), name) for step in steps)  # Setup checks the step


def _turns(cohorts: Sequence[Sequence[int]], clients: int, participation: float) -> list[tuple[int, ...]]:
    if participation != 1:
        raise ValueError(
            f"participation is {participation:g} and cohorts are given; either clients are drawn, or named"
        )
    if not isinstance(cohorts, Iterable):
        raise ValueError(f"cohorts is {cohorts!r}; it is a sequence of cohorts, each a sequence of clients")
    turns = [tuple(np.atleast_1d(cohort).tolist()) for cohort in cohorts]
    for cohort in turns or [()]:
        if (
            not cohort
            or not all(is_number(client, Integral) for client in cohort)
            or len(set(cohort)) < len(cohort)
            or not set(cohort) <= set(range(clients))
        ):
            raise ValueError(f"a cohort is {list(cohort)}; it must name some of the clients 0 to {clients - 1}, once")
    return turns


def _of_one_round(
    regime: KernelRegime,
    method: str,
    options: Mapping[str, Any],
    *,
    participation: float = 1.0,
    batch_size: int | None = None,
    shuffled: bool = False,
    noise: float = 0.0,
    given: tuple[int, ...] = (),
) -> RandomRegime:
    """Random rounds with the same steps in every round; `random_of_method` composes schedules from such regimes."""
    from ntkfl.training.methods import build, module_of
    from ntkfl.training.objectives import HalfSquares

    regime, options = _server_step_in_options(regime, method, options)
    cohort = len(given) or cohort_size(regime.problem.n_clients, participation)
    if batch_size is not None:
        _require_batches(batch_size, int(np.bincount(regime.problem.owner).max()))
    if not (is_number(noise) and 0 <= noise <= LARGE):
        raise ValueError(
            f"noise is {noise!r}; it is a standard deviation: a finite number, 0 or more, and up to {LARGE:g}"
        )
    blocks = replace(regime.blocks, cohort=cohort, given=given)
    if batch_size is not None:
        Noise(blocks, "uniform", 0.0, batch_size).require_few_steps()
    if shuffled and batch_size is None:
        raise ValueError("shuffled passes need a batch_size: a pass over all samples at once has no order")
    remembers = hasattr(module_of(method), "drawn")
    mean = of_method(regime, method, options, cohort=cohort, blocks=blocks)  # this refuses methods that are not linear
    _require_one_round(mean)
    built = build(method, HalfSquares("sum"), **options)
    if shuffled:
        pull = mean.round.pull if remembers or mean.round.server is not None else 0.0
        blocks = shuffled_blocks(blocks, cast(int, batch_size), pull, sloped=remembers)
    if not remembers:
        if shuffled:
            mean = of_method(regime, method, options, cohort=cohort, blocks=blocks)
            _require_one_round(mean)
        return random_regime(mean, blocks, built.weighting, batch_size, float(noise))
    drawn = drawn_memory_regime(mean, blocks, module_of(method).drawn(built, blocks), batch_size, float(noise))
    _require_one_round(drawn.mean)
    return drawn


def _require_batches(batch_size: int, largest: int) -> None:
    require_size("batch_size", batch_size)
    if batch_size > largest:
        raise ValueError(
            f"batch_size is {batch_size}, and no client has so many samples: the largest has {largest}, so that no "
            "batch would be drawn. Take no more than that, or leave batch_size out"
        )


def _loss_of(loss: str | ConvexLoss, problem: Problem) -> ConvexLoss:
    """The loss of this name, or the given `ConvexLoss`; a ValueError if it is unknown or does not take the labels."""
    convex_loss = LOSSES.get(loss) if isinstance(loss, str) else loss
    if convex_loss is None:
        raise ValueError(f"there is no loss {loss!r}; the losses are {', '.join(LOSSES)}, or a ConvexLoss of yours")
    y = problem.y
    if not convex_loss.labels(y):
        raise ValueError(
            f"the labels run from {y.min():g} to {y.max():g}; the {convex_loss.name} loss takes {convex_loss.accepts}"
        )
    return convex_loss
