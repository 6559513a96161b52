"""Algorithm 1 (FedAvg on a two-layer ReLU network): all clients at once in pre-activation space, or in groups.

Every weight vector of the run is u_r(0) + sum_i C_ir x_i. So the run keeps only the coefficients C and the
pre-activations Z = X u^T = Z(0) + G C with G = X X^T. No array of size (clients, width, d) is formed. Movements are
quadratic forms of C, without the cancellation that u(t) - u(0) has. Clients of different sizes are padded with zero
rows, whose output, residual and gradient are exactly zero.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from ntkfl import interruption
from ntkfl.algorithm1.group_sizes import neurons_bytes, padded_samples, record_bytes
from ntkfl.algorithm1.neurons import CompiledNeurons, Neurons
from ntkfl.initialisation import draw
from ntkfl.limit.infinite_width import warn_if_unstable
from ntkfl.memory import left_for, require
from ntkfl.problem import Problem, Setup, Weights, finite_array
from ntkfl.trajectory import Trajectory, provenance

# with at least this many samples times neurons, compiling the run in groups (about a second) saves time
GROUPED = 2**21
# with at least this many samples times neurons times local steps of all rounds, compiling the passes (three seconds)
# saves time
COMPILED = 2**28
# with at least this many samples times neurons times local steps of all rounds, compiling `switch_tracking` (three
# seconds) saves time in groups
TRACKED = 2**30
FEW_SAMPLES = 32  # for clients of up to this many samples, the compiled product with the Gram matrix is as fast as BLAS


def simulate(
    problem: Problem,
    setup: Setup,
    weights: Weights | None = None,
    *,
    keep: Iterable[int] = (),
    linearised: bool = False,
    movements: bool = True,
    dtype: Literal["float64", "float32"] = "float64",
    devices: Sequence[Any] = (),
    memory: float | None = None,
    compiled: bool | None = None,
    grouped: bool | None = None,
) -> Trajectory:
    """Run Algorithm 1 for `setup.rounds` rounds.

    The loss is a sum over samples, the server's mean is unweighted, local steps have the numbers k = 0..K-1, and a
    neuron is active if its pre-activation is >= 0.

    Args:
        problem: data with scalar labels.
        setup: sizes and steps.
        weights: initial network, (hidden (m, d), signs (m,)); default: drawn from `setup.seed`.
        keep: rounds t in 0..T whose hidden weights u(t) are kept in the trajectory; default none.
        linearised: whether the activation patterns are frozen at their initial values, which makes the network linear
            in its weights.
        movements: whether movements, steps and flips are recorded. Without them a large run trains groups of clients,
            by the host's threads or on devices. Training in groups takes a fraction of the memory, and is several times
            faster.
        dtype: "float64" (default), or, only without movements, "float32".
        devices: JAX devices that share the neurons, without movements only; default none.
        memory: bytes that the run may take on each device, besides the results; the groups of clients are made to fit.
            Default: the memory that this machine has left, unless the run is on other devices.
        compiled: whether to compile code that makes runs several times faster; compiling takes some three seconds. With
            movements, the passes over neurons are compiled, for clients of at most 32 samples. In groups,
            `ntkfl.algorithm1.switch_tracking` is compiled. Default: code is compiled if the run would otherwise take
            three seconds or more.
        grouped: whether to train groups of clients. Default: groups are trained if no movements are recorded and the
            run is large or does not fit into `memory` otherwise.

    Raises:
        ValueError: several outputs, weights that do not fit, a round to keep beyond the last one, movements together
            with float32, with several devices or with groups, a run that does not fit into `memory` or into this
            machine's memory.
        FloatingPointError: the run overflowed; the message names the round and the stability limit.

    Source: FL-NTK, Algorithm 1 (with k = 0..K-1, since the printed loop is circular; see fl-ntk/Alg1-update).

    Example:
        >>> import ntkfl
        >>> ntkfl.simulate(ntkfl.data.sphere(), ntkfl.Setup(width=16, rounds=3)).outputs.shape
        (4, 8)
    """
    if memory is not None and not memory > 0:
        raise ValueError(f"memory is {memory}; it must be a positive number of bytes")
    keep = keep_rounds(keep, setup.rounds)
    whole = partial(neurons_bytes, padded_samples(problem), problem.d, kept=len(keep))
    record = partial(record_bytes, padded_samples(problem), local_steps=setup.local_steps)
    left = left_for(whole(setup.width) + record(setup.rounds))  # measured before the weights are drawn
    require("the record of the run", record, left, rounds=setup.rounds)
    room = left - record(setup.rounds) if memory is None else memory
    fits = whole(setup.width) <= room
    if movements:
        hint = "movements=False needs a fraction of that"
        require("with movements the run", whole, room, hint, width=setup.width)
    weights = checked_weights(problem, setup, weights)
    limit = warn_if_unstable(problem, setup)
    layout = _padded(problem)
    special = dtype != "float64" or len(devices) > 0
    if special and movements:
        raise ValueError(
            f"dtype is {dtype} and {len(devices)} devices are named; movements are recorded in float64 on the host "
            "only: pass movements=False"
        )
    if grouped and movements:
        raise ValueError("grouped is True; groups of clients record no movements: pass movements=False")
    if grouped is None:
        grouped = not movements and (problem.n * setup.width >= GROUPED or not fits)
    steps = layout.y.size * setup.width * setup.local_steps * setup.rounds
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is refused below, where its cause is known
        if special or grouped:
            tracked = steps >= TRACKED if compiled is None else compiled
            run = _run_in_groups(layout, setup, weights, keep, linearised, dtype, devices, memory, room, tracked)
        else:
            if compiled is None:
                compiled = steps >= COMPILED
            if compiled and layout.x.shape[1] <= FEW_SAMPLES:
                neurons: Neurons | CompiledNeurons = CompiledNeurons(layout.x, *weights, linearised, movements)
            else:
                neurons = Neurons(layout.x, *weights, linearised, movements)
            run = _run(neurons, layout, setup, keep)
    arrays, kept, device = run
    for name in ("outputs", "local_outputs"):
        arrays[name] = arrays[name][..., layout.position]
    overflowed = [t for part in arrays.values() for t in _not_finite(part)]
    if overflowed:
        raise FloatingPointError(f"the run overflowed at round {min(overflowed)}: {limit or 'the steps are too large'}")
    return Trajectory(
        y=problem.y,
        n_clients=problem.n_clients,
        weights=kept,
        provenance=provenance(weights=setup.seed) | {"dtype": dtype, "device": device},
        **arrays,
    )


def checked_weights(problem: Problem, setup: Setup, weights: Weights | None) -> Weights:
    """The given weights as float64 arrays of the right shapes, or the weights drawn from the setup's seed.

    Raises:
        ValueError: labels with several outputs, wrong shapes, entries that are not finite, signs that are not +-1.
    """
    if problem.y.ndim != 1:
        raise ValueError(f"y has shape {problem.y.shape}; the network has one output, so y must be ({problem.n},)")
    if weights is None:
        return draw(setup.width, problem.d, setup.seed, setup.sigma)
    hidden, signs = finite_array("hidden", weights[0]), finite_array("signs", weights[1])
    if hidden.shape != (setup.width, problem.d) or signs.shape != (setup.width,):
        raise ValueError(
            f"weights have shapes {hidden.shape} and {signs.shape}; "
            f"width {setup.width} and d = {problem.d} need ({setup.width}, {problem.d}) and ({setup.width},)"
        )
    if not (np.abs(signs) == 1).all():
        raise ValueError(f"signs contain {signs[np.abs(signs) != 1][0]}; every sign must be +1 or -1")
    return Weights(hidden, signs)


def keep_rounds(keep: Iterable[int], rounds: int) -> np.ndarray:
    """The rounds to keep, ascending.

    Raises:
        ValueError: a round that is not run.
    """
    rounds_kept = np.array(sorted(set(keep)), int)
    if len(rounds_kept) and (rounds_kept[0] < 0 or rounds_kept[-1] > rounds):
        wrong = rounds_kept[0] if rounds_kept[0] < 0 else rounds_kept[-1]
        raise ValueError(f"keep names round {wrong}; the run has rounds 0..{rounds}")
    return rounds_kept


# Arrays of `Trajectory` by name, with samples in the padded order; the weights at the rounds to keep; the device.
_Run = tuple[dict[str, np.ndarray], dict[int, np.ndarray], str]


class _Layout(NamedTuple):
    x: np.ndarray  # (N, c, d), with zero rows for clients of fewer than c samples
    y: np.ndarray  # (N c,)
    position: np.ndarray  # (n,): index of each sample in the flattened (N * c) order


def _padded(problem: Problem) -> _Layout:
    clients = problem.members
    widest = max(map(len, clients))
    x, y = np.zeros((len(clients), widest, problem.d)), np.zeros((len(clients), widest))
    position = np.empty(problem.n, int)
    for c, members in enumerate(clients):
        x[c, : len(members)], y[c, : len(members)] = problem.x[members], problem.y[members]
        position[members] = c * widest + np.arange(len(members))
    return _Layout(x, y.ravel(), position)


def _run(neurons: Neurons | CompiledNeurons, layout: _Layout, setup: Setup, keep: np.ndarray) -> _Run:
    """The run, round by round and step by step.

    The methods of `neurons` take the residuals times eta_local / sqrt(m), and return sums over the neurons and squared
    lengths of movements. The lengths are recorded if `neurons.movements` is True.
    """
    y, n_clients, scale = layout.y, len(layout.x), 1 / np.sqrt(setup.width)
    rounds, local_steps = setup.rounds, setup.local_steps
    outputs, local_outputs = np.empty((rounds + 1, len(y))), np.empty((rounds, local_steps + 1, len(y)))
    movement, total_movement, flips = (np.zeros(rounds + 1) for _ in range(3))
    local_movement, step = np.zeros((rounds, local_steps + 1)), np.zeros(rounds)
    kept = {}
    for t in range(rounds + 1):
        interruption.check()
        seen = neurons.begin()
        outputs[t], flips[t] = scale * seen.sums, seen.flips
        movement[t], total_movement[t] = _length(seen.movement), _length(seen.total_movement)
        if t in keep:
            kept[t] = neurons.weights()
        if t == rounds:
            break
        local_outputs[t, 0], local_movement[t, 0] = outputs[t], movement[t]
        for k in range(local_steps):
            pull = (setup.eta_local * scale) * (y - local_outputs[t, k])
            sums, farthest = neurons.step(pull, first=k == 0)
            local_outputs[t, k + 1], local_movement[t, k + 1] = scale * sums, _length(farthest)
        step[t] = _length(neurons.end(setup.eta_global / n_clients)) / n_clients
    arrays = {"outputs": outputs, "local_outputs": local_outputs}
    if neurons.movements:
        arrays |= {"movement": movement, "total_movement": total_movement, "local_movement": local_movement}
        arrays |= {"step": step, "flips": flips / (len(layout.position) * setup.width)}
    return arrays, kept, "cpu"


def _run_in_groups(
    layout: _Layout,
    setup: Setup,
    weights: Weights,
    keep: np.ndarray,
    linearised: bool,
    dtype: str,
    devices: Sequence,
    memory: float | None,
    room: float,
    tracked: bool,
) -> _Run:
    """The run without movements: by the host's threads, on the named devices, or on the devices that JAX has found."""
    import jax

    from ntkfl.algorithm1 import client_groups, client_threads

    elsewhere = len(devices) > 0 or jax.default_backend() != "cpu"
    here = partial(client_threads.run, tracked=tracked)
    run = partial(client_groups.run, devices=devices) if elsewhere else here
    result = run(
        layout.x,
        layout.y.reshape(layout.x.shape[:2]),
        weights,
        keep,
        setup,
        linearised=linearised,
        dtype=dtype,
        memory=memory if elsewhere or np.isinf(room) else room,
    )
    local = result.local.astype(float).reshape(setup.rounds, setup.local_steps + 1, -1)
    outputs = np.concatenate([local[:, 0], result.last.astype(float).reshape(1, -1)])
    kept = {int(t): u.astype(float) for t, u in zip(keep, result.kept, strict=True)}
    return {"outputs": outputs, "local_outputs": local}, kept, result.device


def _not_finite(rounds: np.ndarray) -> np.ndarray:
    """The rounds (first axis) in which some entry is not finite."""
    return np.flatnonzero(~np.isfinite(rounds.reshape(len(rounds), -1)).all(axis=1))


def _length(squared: float) -> float:
    """A norm from a quadratic form that is nonnegative up to rounding."""
    return float(np.sqrt(max(squared, 0.0)))


State = TypeVar("State")


def in_legs(
    start: State, train: Callable[[State, range], State], rounds: int, every: int
) -> Iterator[tuple[int, State]]:
    """Yields the rounds 0, `every`, 2 `every` and so on up to `rounds`, each with the state of training after it.

    A leg is the rounds from one yielded state to the next. The last leg is shorter if `every` does not divide `rounds`.
    `train` takes a state and the numbers of a leg's rounds, and returns the state after the leg.

    Raises:
        ValueError: rounds negative or every not positive.
    """
    if rounds < 0 or every < 1:
        raise ValueError(f"rounds is {rounds} and every is {every}; they must be at least 0 and at least 1")
    state = start
    yield 0, state
    for reached in range(0, rounds, every):
        interruption.check()
        leg = range(reached + 1, min(reached + every, rounds) + 1)
        state = train(state, leg)
        yield leg[-1], state


def overflowed(setup: Setup, reached: int) -> FloatingPointError:
    """The error to raise for a run whose weights are not finite after round `reached`."""
    return FloatingPointError(
        f"the weights are not finite after round {reached}: eta_local = {setup.eta_local:g} or "
        f"eta_global = {setup.eta_global:g} is too long a step; try a tenth"
    )


def checkpoints(problem: Problem, setup: Setup, rounds: int, every: int) -> Iterator[tuple[int, Weights]]:
    """Yields the initial network of setup.seed, and the network after every `every` rounds up to `rounds`.

    The last bits of the weights depend on `every`, because each leg starts from the previous leg's last weights,
    rounded to float64.

    Raises:
        ValueError: as `in_legs`. FloatingPointError: as `simulate`.
    """

    def train(weights: Weights, leg: range) -> Weights:
        run = simulate(problem, replace(setup, rounds=len(leg)), weights, keep=[len(leg)], movements=False)
        return Weights(run.weights[len(leg)], weights.signs)

    return in_legs(draw(setup.width, problem.d, setup.seed, setup.sigma), train, rounds, every)
