"""Convergence: how does the number of rounds depend on the number of clients, the local steps and both step sizes?

A cell trains one network until its residual has fallen to a hundredth, and counts the rounds. It also counts the rounds
to a hundredth in the kernel regime, from the same outputs before training. The study compares the runs and the kernel
regime with the bounds of Theorem B.3, Theorem 4.1 and statement fl-ntk/X.3b.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import numpy as np
from scipy.optimize import brentq

from bounds.fl_ntk.round_spectrum import FACTOR, q
from bounds.formula import evaluate
from bounds.symbols import K, N, eta_global, eta_local, lam
from experiments.studies.answers import exponent, joined, power_law, upper
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.series import BARS, line, places, points
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Numbers, Point, Quantity, Study, seeds
from experiments.studies.study_data import DATA, data_of, on_data
from ntkfl import Problem, Setup, Weights, data, gram, interruption, simulate
from ntkfl.initialisation import draw
from ntkfl.limit.infinite_width import algorithm1_limit

N_SAMPLES, FEATURES, WIDTH = 16, 64, 2048
SHARE = 0.01  # rounds are counted until this share of the residual is left
# number of rounds simulated at a time, the same for all cells so that those with equal N and K share a compiled
# function
LEG = 50
SMALL = 0.5  # statement fl-ntk/X.6 claims its exponents if eta_l K |H_inf| is at most SMALL
SLACK = 1e-12  # a generous bound on the relative rounding error of eigenvalues of (16, 16) matrices
SPHERE = "sphere"
AS_MANY = "N"  # stands for a server step size that is equal to the number of clients


def problem_of(name: str, clients: int, seed: int) -> Problem:
    """The samples of a seed, assigned to the clients in turn in a random order.

    The order does not depend on the number of clients.
    """
    whole = data.sphere(N_SAMPLES, FEATURES, seed=seed, clients=1) if name == SPHERE else data_of(name, seed)
    return replace(whole, owner=np.random.default_rng([seed, 7]).permutation(whole.n) % clients)


def setup_of(point: Point) -> Setup:
    """The setup of a cell, with its step sizes and its number of local steps."""
    clients, server = point["clients"], point["eta_global"]
    return Setup(
        width=WIDTH,
        eta_local=point["eta_local"],
        eta_global=float(clients if server == AS_MANY else server),
        local_steps=point["local_steps"],
        rounds=LEG,
        seed=point[SEED],
    )


def measure(point: Point) -> Measured:
    """Rounds and rates of the network, of the kernel regime and of the bounds; NaN if the steps are not stable.

    The network runs for at least as many rounds as the bound allows. If the residual has not fallen to a hundredth by
    then, the network's number of rounds is infinite.
    """
    problem, setup = problem_of(point[DATA], point["clients"], point[SEED]), setup_of(point)
    limit = gram.infinite(problem.x)
    regime = algorithm1_limit(problem, setup, limit)
    values = dict.fromkeys((quantity.name for quantity in ON_SPHERE.quantities), np.nan)
    values["small"] = setup.eta_local * setup.local_steps * float(np.linalg.eigvalsh(limit)[-1])
    values["rate"] = regime.rate
    values["rate_bound"] = _rate_bound(problem, setup, limit)
    if not regime.stable:
        return values
    weights = draw(WIDTH, problem.d, setup.seed)
    rounds = regime.rounds_to(SHARE, weights.outputs(problem.x))
    rho = setup.eta_global * setup.eta_local * setup.local_steps / problem.n_clients
    step = rho * float(np.linalg.eigvalsh(gram.finite(problem.x, weights.hidden))[0]) / 2
    bound = 2 * np.log(SHARE) / np.log1p(-step) if step < 1 else np.nan
    residual = _residual(problem, setup, weights, max(2 * rounds, math.ceil(bound) if step < 1 else 0))
    reached = np.flatnonzero(residual <= SHARE * residual[0])
    values["rounds_limit"] = rounds
    values["rounds_run"] = float(reached[0]) if len(reached) else float("inf")
    values["rounds_bound"] = bound
    if step < 1:
        claimed = (1 - step) ** np.arange(1, len(residual))
        values["over_bound"] = float((residual[1:] ** 2 / (residual[0] ** 2 * claimed)).max())
    return values


def _rate_bound(problem: Problem, setup: Setup, limit: np.ndarray) -> float:
    """The bound of X.3b on the spectral radius, or NaN if its hypotheses do not hold."""
    largest = max(float(np.linalg.eigvalsh(limit[np.ix_(own, own)])[-1]) for own in problem.members)
    if setup.eta_global > 1 or setup.eta_local * largest > 1:
        return np.nan
    known = {lam: float(np.linalg.eigvalsh(limit)[0]), q: largest, N: problem.n_clients, K: setup.local_steps}
    return float(evaluate(FACTOR, known | {eta_local: setup.eta_local, eta_global: setup.eta_global}).value)


def _residual(problem: Problem, setup: Setup, weights: Weights, most: int) -> np.ndarray:
    """|y - y(t)| of the network for t = 0, 1, ..., until it has fallen to SHARE, or for fewer than `most` + LEG rounds.

    LEG rounds are run at a time. If they overflow, the last residual is infinite. Such a cell is kept, since its steps
    are stable according to the kernel regime.
    """
    residual = np.array([np.linalg.norm(problem.y - weights.outputs(problem.x))])
    while len(residual) <= most and not residual[-1] <= SHARE * residual[0]:
        interruption.check()
        try:
            run = simulate(problem, setup, weights, keep=[LEG], movements=False)
        except FloatingPointError:
            return np.append(residual, np.inf)
        residual = np.concatenate([residual[:-1], run.residual_norm])
        weights = Weights(run.weights[LEG], weights.signs)
    return residual


@cache
def _flow_time(name: str, seed: int) -> tuple[float, float]:
    """The time in which the residual of gradient flow at infinite width falls to SHARE, and H_inf's largest eigenvalue.

    The flow starts from outputs 0.
    """
    problem = problem_of(name, 1, seed)
    eigenvalues, vectors = np.linalg.eigh(gram.infinite_estimate(problem.x).value)
    labels = vectors.T @ problem.y

    def left(log_time: float) -> float:
        return float(np.linalg.norm(np.exp(-np.exp(log_time) * eigenvalues) * labels) / np.linalg.norm(labels)) - SHARE

    shortest, longest = (np.log(-np.log(SHARE) / eigenvalues[end]) for end in (-1, 0))
    return float(np.exp(brentq(left, shortest - 1, longest + 1))), float(eigenvalues[-1])


def _seconds(point: Point) -> float:
    """Roughly the processor time of a cell.

    The time is the number of rounds times the time of one round. The time of one round grows with the numbers of
    samples and local steps.
    """
    clients, setup = point["clients"], setup_of(point)
    if point[DATA] == SPHERE:
        return 0.1 + 0.003 * clients / setup.eta_local
    time, largest = _flow_time(point[DATA], point[SEED])
    if setup.eta_local * largest > 2 * clients:  # the steps are not stable, so nothing is run
        return 0.1
    rounds = time * clients / (setup.eta_global * setup.eta_local * setup.local_steps)
    return 0.1 + 1.5e-5 * problem_of(point[DATA], clients, point[SEED]).n * (1 + setup.local_steps) * rounds


def summarise(cells: Cells) -> Iterable[Answer]:
    """The bounds in every cell and, for small steps, the powers of N and of eta_l K in the number of rounds."""
    small = cells.where(cells.small <= SMALL)
    work = small.eta_local * small.local_steps
    unstable = int((np.isfinite(cells.rate) & np.isnan(cells.rounds_limit)).sum())
    left_out = f"left out: {unstable} cells where the kernel regime is not stable" if unstable else ""
    claim = "|y - y(t)|^2 <= (1 - rho lambda/2)^t |y - y(0)|^2 for every round t of the run"
    note = joined("the theorem's conclusion, tested at step sizes and a width far outside its premise", left_out)
    yield upper(claim, "fl-ntk/B.3, Eq (7)", cells.over_bound, 1.0, SLACK * cells.over_bound, note=note)
    claim = "a hundredth of the residual is reached within 2 ln(1/.01) / (rho lambda/2) rounds, up to the logarithm"
    yield upper(claim, "fl-ntk/T4.1", cells.rounds_run, cells.rounds_bound, note=left_out)
    claim = "spectral radius <= 1 - (eta_g/N)(lambda/q)(1 - (1 - eta_l q)^K)"
    yield upper(claim, "fl-ntk/X.3b", cells.rate, cells.rate_bound, SLACK, SLACK)
    for name, who in (("rounds_limit", "kernel regime"), ("rounds_run", "network")):
        for server in cells.eta_global.to_numpy():
            power, times = (0.0, "N") if server == AS_MANY else (1.0, server)
            rounds = (small[name] * work).sel(eta_global=server)
            claim = f"rounds of the {who} ~ N^{power:g} at eta_g = {times}"
            yield power_law(claim, "fl-ntk/X.6", power, rounds, "clients")
    per_client = small.rounds_run / small.clients.where(small.eta_global != AS_MANY, 1)
    sizes, rounds = _by_work(per_client)
    yield exponent(
        "rounds of the network ~ (eta_l K)^(-1)", "fl-ntk/T4.1", -1.0, sizes, rounds, axes=("eta_local", "local_steps")
    )


def _by_work(values: Numbers) -> tuple[np.ndarray, list[np.ndarray]]:
    """The values of eta_l K that occur, and for each of these values the measured numbers of its cells."""
    flat = values.transpose("eta_local", "local_steps", ...)
    work = np.multiply.outer(flat.eta_local.to_numpy(), flat.local_steps.to_numpy()).round(12)
    sizes = np.unique(work)
    rows = flat.to_numpy().reshape(*work.shape, -1)
    chosen = [rows[work == size] for size in sizes]
    return sizes, [sample[~np.isnan(sample)] for sample in chosen]


def charts(cells: Cells) -> Iterable[Chart]:
    """Rounds against N for each server step size, and the rate against K."""
    middle = {name: cells[name].to_numpy()[(cells.sizes[name] - 1) // 2] for name in ("eta_local", "local_steps")}
    at = cells.sel(middle)
    series = []
    for server in cells.eta_global.to_numpy():
        own, name = at.sel(eta_global=server), f"network, eta_g = {server}"
        series += [
            points(name, own.rounds_run, "clients"),
            line("kernel regime", own.rounds_limit, "clients", of=name),
            line("Theorem B.3", own.rounds_bound, "clients", "bound", of=name),
        ]
    panel = Panel("", Label("clients N", log=True), Label("rounds to |r| = .01 |r(0)|", log=True), tuple(series))
    chosen = f"eta_local = {middle['eta_local']:g}, K = {middle['local_steps']}"
    common = f"width {WIDTH}; {cells.sizes[SEED]} seeds"
    yield Chart(
        "rounds-against-clients",
        f"Rounds against the number of clients, {chosen}; {common}; only runs whose residual fell to a hundredth; "
        f"{BARS}. With a server step of N the rounds do not grow.",
        "Rounds against clients: they grow in proportion at server step 1 and stay level at server step N.",
        (panel,),
    )
    yield _rate_chart(cells, common)


def _rate_chart(cells: Cells, common: str) -> Chart:
    clients, server = int(cells.clients[cells.sizes["clients"] // 2]), str(cells.eta_global.to_numpy()[0])
    at, steps, series = 1 - cells.sel(clients=clients, eta_global=server), places(cells, "local_steps"), []
    for eta in cells.eta_local.to_numpy():
        own, name = at.sel(eta_local=eta), f"eta_local = {eta:g}"
        series += [
            Series(name, "measured", steps, own.rate.mean(SEED).to_numpy().tolist()),
            Series("at least, X.3b", "theory", steps, own.rate_bound.mean(SEED).to_numpy().tolist(), of=name),
        ]
    x, y = Label("local steps K", log=True), Label("1 - spectral radius", log=True)
    return Chart(
        "rate-against-local-steps",
        f"Contraction a round in the kernel regime, 1 - spectral radius, against the local steps; N = {clients}, "
        f"server step {server}; {common}, mean.",
        "Contraction a round against local steps, exact and its lower bound, for several local step sizes.",
        (Panel("rate of the kernel regime", x, y, tuple(series)),),
    )


ON_SPHERE = Study(
    name="convergence",
    question="How do the rounds depend on the clients, the local steps and both step sizes?",
    source="FL-NTK, Theorems 4.1 and B.3; X.3b and X.6 (docs/proofs/linear_methods.md#rounds-and-clients)",
    axes=(
        Axis("clients", (1, 2, 4, 8, 16), "clients N", least=1),
        Axis("local_steps", (1, 2, 4, 8), "local steps K", least=1),
        Axis("eta_local", (0.05, 0.1, 0.2, 0.4), "step of the clients", above=0),
        Axis("eta_global", ("1", AS_MANY), "step of the server; N: as many as clients"),
        seeds(3, "of data, split and network"),
    ),
    quantities=(
        Quantity("rate", "spectral radius of the round map of the kernel regime"),
        Quantity("rate_bound", "bound of X.3b on this radius, if its hypotheses hold"),
        Quantity("rounds_limit", "first round with a hundredth of the residual, in the kernel regime", "rounds"),
        Quantity(
            "rounds_run", "first round with a hundredth of the network's residual; inf: more than were run", "rounds"
        ),
        Quantity("rounds_bound", "first round with a hundredth of the residual, by Theorem B.3's rate", "rounds"),
        Quantity("over_bound", "max_t |y - y(t)|^2 of the network over Theorem B.3's bound"),
        Quantity("small", "eta_l K |H_inf|"),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=_seconds,
)

STUDY = on_data(ON_SPHERE, SPHERE, f"n = {N_SAMPLES}, d = {FEATURES}")
