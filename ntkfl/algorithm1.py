"""Algorithm 1 (FedAvg on a two-layer ReLU network), all clients at once, in pre-activation space; or in groups.

Every weight vector the algorithm visits is u_r(0) + sum_i C_ir x_i, so the run is carried by the coefficients C and the
pre-activations Z = X u^T = Z(0) + G C, G = X X^T: nothing of size (clients, width, d) is ever formed, and movements are
quadratic forms of C, free of the cancellation in u(t) - u(0). Clients of different sizes are padded with zero rows,
whose output, residual and gradient are exactly zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ntkfl.exact_dynamics import warn_if_unstable
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights
from ntkfl.trajectory import Trajectory, provenance

GROUPED = 2**21  # samples times neurons from which compiling the run in groups (about a second) pays


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
) -> Trajectory:
    """Run Algorithm 1 for `setup.rounds` rounds: sum loss, unweighted server mean, steps k = 0..K-1, indicator >= 0.

    Args:
        problem: data with scalar labels. setup: sizes and steps.
        weights: initial network, (hidden (m, d), signs (m,)); default: drawn from `setup.seed`.
        keep: rounds t in 0..T whose hidden weights u(t) are kept in the trajectory.
        linearised: freeze the activation patterns at their initial values: the network linearised in its weights.
        movements: record movements, steps and flips. Without them a large run goes through groups of clients
            (`client_groups`): a fraction of the memory, and several times faster.
        dtype, devices: float32, and JAX devices that share the neurons; both without movements only.
        memory: bytes that the run may take, of each device, beside the results: groups of clients are made to fit.

    Raises:
        ValueError: several outputs, weights that do not fit, a round to keep that is not run, movements asked of
            float32 or of several devices, a run that does not fit into `memory`.
        FloatingPointError: the run overflowed; the message names the round and the stability limit.

    Source: FL-NTK, Algorithm 1 (with k = 0..K-1: the printed loop is circular, see the ledger's section 0).
    """
    weights = checked_weights(problem, setup, weights)
    keep = keep_rounds(keep, setup.rounds)
    limit = warn_if_unstable(problem, setup)
    layout = _padded(problem)
    special = dtype != "float64" or len(devices) > 0
    if special and movements:
        raise ValueError(
            f"dtype is {dtype} and {len(devices)} devices are named; movements are recorded in float64 on the host "
            "only: pass movements=False"
        )
    if memory is not None and not memory > 0:
        raise ValueError(f"memory is {memory}; it must be a positive number of bytes")
    whole = 8 * setup.width * (9 * len(layout.flat) + (2 + len(keep)) * problem.d)  # bytes of `_run`
    fits = memory is None or whole <= memory
    if memory is not None and movements and not fits:
        raise ValueError(
            f"with movements the run takes {whole / 1e9:.3g} GB and memory is {memory / 1e9:.3g} GB; movements=False "
            "needs a fraction of that"
        )
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is refused below, with its cause
        if special or (not movements and (problem.n * setup.width >= GROUPED or not fits)):
            found = _run_in_groups(layout, setup, weights, keep, linearised, dtype, devices, memory)
        else:
            found = _run(layout, setup, weights, keep, linearised, movements)
    real = layout.position  # where each sample sits in the padded order
    outputs = found.outputs[:, real]
    if not np.isfinite(outputs).all():
        first = int(np.argmin(np.isfinite(outputs).all(axis=1)))
        raise FloatingPointError(f"the run overflowed at round {first}: {limit or 'the steps are too large'}")
    moved = {}
    if movements:
        moved = {name: getattr(found, name) for name in ("movement", "total_movement", "local_movement", "step")}
        moved["flips"] = np.asarray(found.flips) / (problem.n * setup.width)
    return Trajectory(
        y=problem.y,
        n_clients=problem.n_clients,
        outputs=outputs,
        local_outputs=found.local_outputs[:, :, real],
        weights=found.weights,
        provenance=provenance(weights=setup.seed) | {"dtype": dtype, "device": found.device},
        **moved,
    )


def checked_weights(problem: Problem, setup: Setup, weights: Weights | None) -> Weights:
    """The given weights as float64 arrays of the right shapes, or those drawn from the setup's seed.

    Raises:
        ValueError: labels with several outputs, wrong shapes, entries that are not finite, signs that are not +-1.
    """
    if problem.y.ndim != 1:
        raise ValueError(f"y has shape {problem.y.shape}; the network has one output, so y must be ({problem.n},)")
    if weights is None:
        return draw(setup.width, problem.d, setup.seed, setup.sigma)
    hidden, signs = np.asarray(weights[0], float), np.asarray(weights[1], float)
    if hidden.shape != (setup.width, problem.d) or signs.shape != (setup.width,):
        raise ValueError(
            f"weights have shapes {hidden.shape} and {signs.shape}; "
            f"width {setup.width} and d = {problem.d} need ({setup.width}, {problem.d}) and ({setup.width},)"
        )
    if not np.isfinite(hidden).all():
        raise ValueError("the hidden weights contain NaN or infinity; every entry must be finite")
    if not (np.abs(signs) == 1).all():
        raise ValueError(f"signs contain {signs[np.abs(signs) != 1][0]}; every sign must be +1 or -1")
    return Weights(hidden, signs)


def keep_rounds(keep: Iterable[int], rounds: int) -> np.ndarray:
    """The rounds to keep, ascending.

    Raises:
        ValueError: one that is not run.
    """
    found = np.array(sorted(set(keep)), int)
    if len(found) and (found[0] < 0 or found[-1] > rounds):
        wrong = found[0] if found[0] < 0 else found[-1]
        raise ValueError(f"keep names round {wrong}; the run has rounds 0..{rounds}")
    return found


class _Layout(NamedTuple):
    x: np.ndarray  # (N, c, d), zero rows where a client has fewer than c samples
    y: np.ndarray  # (N c,)
    position: np.ndarray  # (n,): index of each sample in the flattened (N * c) order

    @property
    def flat(self) -> np.ndarray:
        """The samples of all clients, (N c, d)."""
        return self.x.reshape(-1, self.x.shape[2])


def _padded(problem: Problem) -> _Layout:
    clients = problem.clients()
    widest = max(map(len, clients))
    x, y = np.zeros((len(clients), widest, problem.d)), np.zeros((len(clients), widest))
    position = np.empty(problem.n, int)
    for c, members in enumerate(clients):
        x[c, : len(members)], y[c, : len(members)] = problem.x[members], problem.y[members]
        position[members] = c * widest + np.arange(len(members))
    return _Layout(x, y.ravel(), position)


class _Run(NamedTuple):
    """What `Trajectory` has, samples in the padded order, flips as counts."""

    outputs: np.ndarray
    local_outputs: np.ndarray
    weights: dict[int, np.ndarray]
    device: str = "cpu"
    movement: np.ndarray | None = None
    total_movement: np.ndarray | None = None
    flips: np.ndarray | None = None
    local_movement: np.ndarray | None = None
    step: np.ndarray | None = None


def _run(layout: _Layout, setup: Setup, weights: Weights, keep: np.ndarray, linearised: bool, movements: bool) -> _Run:
    """The run in arrays of one shape, (N c, m), written in place: the passes over them are what takes the time.

    Within a round a client's coefficients are s_r sum_k p_i(k) [z_ir(k) >= 0], with p_i(k) its residuals times the step
    over sqrt(m) and s_r the neuron's sign. The signs are left out of `summed` and of the products with the Gram
    matrices, and put back after these. `on` is scratch wherever it holds no pattern.
    """
    n_clients, widest, d = layout.x.shape
    x, y, (hidden, signs) = layout.flat, layout.y, weights
    rounds, local_steps, scale = setup.rounds, setup.local_steps, 1 / np.sqrt(len(signs))
    gram, local_gram = x @ x.T, layout.x @ layout.x.transpose(0, 2, 1)
    through_d = len(x) >= 2 * d
    z0 = x @ hidden.T
    start = z0 >= 0
    c, gc = np.zeros_like(z0), np.zeros_like(z0)  # C and G C
    z_global, z_local, on, summed, work = (np.empty_like(z0) for _ in range(5))
    outputs, local_outputs = np.empty((rounds + 1, len(x))), np.empty((rounds, local_steps + 1, len(x)))
    movement, total_movement, flips = (np.zeros(rounds + 1) for _ in range(3))
    local_movement, step = np.zeros((rounds, local_steps + 1)), np.zeros(rounds)
    kept = {}

    def by_client(array: np.ndarray) -> np.ndarray:
        return array.reshape(n_clients, widest, -1)

    def network(z: np.ndarray) -> np.ndarray:
        np.multiply(z, start, out=on) if linearised else np.maximum(z, 0.0, out=on)
        return (on @ signs) * scale

    def observe(t: int) -> np.ndarray | None:
        """Record round t; returns |u_r(t) - u_r(0)|^2 = C_r^T G C_r, (m,)."""
        np.add(z0, gc, out=z_global)
        outputs[t] = network(z_global)
        if t in keep:
            kept[t] = hidden + c.T @ x
        if not movements:
            return None
        moved = np.multiply(c, gc, out=on).sum(axis=0)
        movement[t], total_movement[t] = _length(moved.max()), _length(moved.sum())
        flips[t] = 0 if linearised else np.count_nonzero((z_global >= 0) != start)
        return moved

    for t in range(rounds):
        before = observe(t)
        local_outputs[t, 0], local_movement[t, 0], z = outputs[t], movement[t], z_global
        for k in range(local_steps):
            pull = (setup.eta_local * scale) * (y - local_outputs[t, k])
            np.copyto(on, start) if linearised else np.greater_equal(z, 0.0, out=on, casting="unsafe")
            if k == 0:
                np.multiply(on, pull[:, None], out=summed)
            else:
                summed += np.multiply(on, pull[:, None], out=on)
            np.matmul(local_gram, by_client(summed), out=by_client(work))
            work *= signs
            z = np.add(z_global, work, out=z_local)
            local_outputs[t, k + 1] = network(z)
            if before is not None:  # |u + w|^2 = |u|^2 + w.(2u + w)
                np.multiply(gc, 2.0, out=on)
                on += work
                on *= summed
                local_movement[t, k + 1] = _length((before + by_client(on).sum(axis=1) * signs).max())
        np.matmul(x, x.T @ summed, out=work) if through_d else np.matmul(gram, summed, out=work)
        if before is not None:
            step[t] = _length(np.multiply(summed, work, out=on).sum(axis=0).max()) / n_clients
        signed = (setup.eta_global / n_clients) * signs
        summed *= signed
        work *= signed
        c += summed
        gc += work
    observe(rounds)
    return _Run(outputs, local_outputs, kept, "cpu", movement, total_movement, flips, local_movement, step)


def _run_in_groups(
    layout: _Layout,
    setup: Setup,
    weights: Weights,
    keep: np.ndarray,
    linearised: bool,
    dtype: str,
    devices: Sequence,
    memory: float | None,
) -> _Run:
    """The same without movements, by `client_groups`."""
    from ntkfl import client_groups

    x, y = layout.x, layout.y.reshape(layout.x.shape[:2])
    found = client_groups.run(
        x,
        y,
        *weights,
        keep,
        setup.eta_local,
        setup.eta_global,
        local_steps=setup.local_steps,
        rounds=setup.rounds,
        linearised=linearised,
        dtype=dtype,
        devices=devices,
        memory=memory,
    )
    local = np.asarray(found.local, float).reshape(setup.rounds, setup.local_steps + 1, -1)
    outputs = np.concatenate([local[:, 0], np.asarray(found.last, float).reshape(1, -1)])
    kept = {int(t): np.asarray(u, float) for t, u in zip(keep, found.kept, strict=True)}
    return _Run(outputs, local, kept, ", ".join(sorted(map(str, found.last.devices()))))


def _length(squared: float) -> float:
    """A norm from a quadratic form, nonnegative up to rounding."""
    return float(np.sqrt(max(squared, 0.0)))
