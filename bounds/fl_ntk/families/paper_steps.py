"""Runs that meet the premise of theorem B.3's proof: the step sizes, the radius R, and the random events."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from hypothesis import strategies as st

from bounds import Family, Hypothesis, with_own
from bounds.federated_run import FederatedRun, federated_run, federated_runs, run_values
from bounds.fl_ntk.families.few_points import aligned_run, small_steps
from bounds.fl_ntk.premises import PAPER_STEP, POSITIVE_SPECTRUM, UNIT_ROWS
from bounds.formula import evaluate
from bounds.symbols import K, N, R, eta_global, eta_local, kappa, lam, n, r_t
from ntkfl import Estimate, Problem, Setup, Weights, gram
from ntkfl.algorithm1.reference import BALL
from ntkfl.initialisation import draw


def near_run(x: np.ndarray, direction: np.ndarray, owner: np.ndarray, weights: Weights, setup: Setup) -> FederatedRun:
    """The run in ball arithmetic whose initial residual y - y(0) has the length 1e-6 and this direction.

    The direction need not have unit length.
    """
    outputs = weights.outputs(x)
    problem = Problem(x, outputs + 1e-6 * direction / np.linalg.norm(direction), owner, name="labels near the outputs")
    return federated_run(problem, setup, weights).with_arithmetic(BALL)


def unit_points(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Random unit rows."""
    x = rng.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _near_labels(seed: int) -> FederatedRun:
    """Four points, one or two clients, and one to three local steps.

    The step size is .1 to .7 times a step size with which the residual surely contracts. Every third residual is the
    bottom eigenvector of H(0), which contracts the slowest.
    """
    rng = np.random.default_rng([seed, 5])
    n, d, width, steps, clients = 4, 6, 32, 1 + seed // 2 % 3, 1 + seed % 2
    x, weights = unit_points(rng, n, d), draw(width, d, seed)
    values, vectors = np.linalg.eigh(gram.finite(x, weights.hidden))
    direction = vectors[:, 0] if seed % 3 == 0 else rng.normal(size=n)
    limit = values[0] / (values[-1] ** 2 * steps)
    setup = Setup(
        width=width,
        eta_local=float(rng.uniform(0.1, 0.7) * limit),
        local_steps=steps,
        rounds=3,
        seed=seed,
    )
    return near_run(x, direction, np.arange(n) % clients, weights, setup)


NEAR_LABELS = Family("labels near the outputs", _near_labels, federated_runs(rounds=(1, 4), in_balls=True), fixed=True)


def overshooting_client() -> FederatedRun:
    """One client, with eta_l = 3/|H(0)| and a residual along the top eigenvector.

    Every local step doubles the residual.
    """
    x, weights = unit_points(np.random.default_rng(0), 4, 6), draw(32, 6, 0)
    values, vectors = np.linalg.eigh(gram.finite(x, weights.hidden))
    setup = Setup(width=32, eta_local=3 / float(values[-1]), local_steps=3, rounds=1)
    return near_run(x, vectors[:, -1], np.zeros(4, int), weights, setup)


def growing_round() -> FederatedRun:
    """Twenty local steps that are stable (eta_l q < 2 on every client), with eta_g = 1/2.

    The residual grows in the first round.

    The round map M is not symmetric. Its spectral radius is below 1, and its norm is above 1. The residual has the
    direction that M stretches the most.
    """
    n, d, width, steps, clients = 6, 2, 64, 20, 2
    x, weights, owner = unit_points(np.random.default_rng(112), n, d), draw(width, d, 112), np.arange(n) % clients
    h = gram.finite(x, weights.hidden)
    blocks = h * (owner[:, None] == owner)
    eta_local = 1 / float(np.linalg.eigvalsh(blocks)[-1])
    response = eta_local * sum(np.linalg.matrix_power(np.eye(n) - eta_local * blocks, k) for k in range(steps))
    stretched = np.linalg.svd(np.eye(n) - 0.5 / clients * h @ response)[2][0]
    setup = Setup(width=width, eta_local=eta_local, eta_global=0.5, local_steps=steps, rounds=1)
    return near_run(x, stretched, owner, weights, setup)


# the second family is needed since few runs of the default families surely contract
contracting_families = with_own(small_steps, NEAR_LABELS)


def spectrum(case: FederatedRun) -> dict:
    """The values of the symbols in the paper's limits on steps: lambda, kappa, n and K.

    lambda and kappa belong to H(0), and their values are certified.
    """
    return run_values(case, lam, kappa, n, K)


def radius(case: FederatedRun) -> float:
    """R = lambda/(1000 n), rounded down, which is the largest radius that the proof admits."""
    return float(case.smallest_eigenvalue.lo) / (1000 * case.problem.n) * (1 - 1e-12)


def step_margin(limit, case: FederatedRun) -> Estimate:
    """The distances of eta_l and of eta_g eta_l below a limit, relative to the limit, (2,)."""
    setup = case.setup
    largest = float(evaluate(limit, spectrum(case)).lo)
    shares = np.array([setup.eta_local, setup.eta_local * setup.eta_global]) / largest
    return Estimate(1 - shares, 1e-14 * shares, "rounding bound")


SMALL_AS_PRINTED = Hypothesis(
    "steps-of-the-proof",
    "eta_l and eta_g eta_l at most lambda/(1000 kappa n^2 K)",
    lambda case: step_margin(PAPER_STEP, case),
    eased_by=("eta_local",),
)


def _room(case: FederatedRun) -> Estimate:
    moved = [case.observed(name) for name in ("movement", "local_movement")]
    return Estimate.exact(radius(case) - max(float(m.hi.max()) for m in moved))


WITHIN_RADIUS = Hypothesis(
    "within-R", "no weight vector, global or local, is further than R = lambda/(1000 n) from where it began", _room
)


@lru_cache(maxsize=4)
def _crowding(case: FederatedRun) -> np.ndarray:
    """Two margins: the least over i of 4 m R - #{r: |w_r.x_i| < R}, and 2 n R - |x_i.x_j max(D_ij, U_ij)|_F / m.

    Let each weight vector move by up to R. Then, for two samples, at most D_ij neurons that were active on both are no
    longer active on both, and at most U_ij other neurons become active on both.
    """
    x, hidden, reach = case.problem.x, case.weights.hidden, radius(case)
    z, m = x @ hidden.T, case.setup.width
    band = reach * np.linalg.norm(x, axis=1, keepdims=True) + 1e-12 * (1 + np.abs(hidden).max())
    on, sure, maybe = ((z >= limit).astype(float) for limit in (0.0, band, -band))
    both = on @ on.T
    moved = np.maximum(both - sure @ sure.T, maybe @ maybe.T - both) / m
    change = np.linalg.norm(np.abs(x @ x.T) * moved) * (1 + 1e-12)
    crowd = (np.abs(z) < band).sum(axis=1).max()
    return np.array([4 * m * reach - crowd, 2 * case.problem.n * reach - change])


EVENTS = Hypothesis(
    "likely-counts",
    "the two events that the proof calls likely: at most 4 m R neurons within R of each kink (10), and no weights "
    "within R of the first ones change H(0) by more than 2 n R (B.11)",
    lambda case: Estimate.exact(_crowding(case)),
)


def paper_run(
    x: np.ndarray, owner: np.ndarray, weights: Weights, setup: Setup, share: float, direction: np.ndarray | None
) -> FederatedRun:
    """The run of four rounds with eta_l = share lambda/(kappa n^2 K), whose residual has length 1.

    y - y(0) has the direction `direction`. None stands for the bottom eigenvector of H(0), which contracts the slowest.
    """
    values, vectors = np.linalg.eigh(gram.finite(x, weights.hidden))
    chosen = vectors[:, 0] if direction is None else direction
    outputs = weights.outputs(x)
    problem = Problem(x, outputs + chosen / np.linalg.norm(chosen), owner, name=f"{len(x)} points, steps of the proof")
    limit = values[0] ** 2 / (values[-1] * len(x) ** 2 * setup.local_steps)
    return federated_run(problem, replace(setup, eta_local=float(share * limit), rounds=4), weights)


def step_run(of_the_lemma: bool, width: int, seed: int) -> FederatedRun:
    """Four points, two clients and four rounds, with a share of a largest step size.

    The largest step size is taken from theorem B.3's proof or, if `of_the_lemma`, from Lemma 6.2. In Lemma 6.2 eta_l
    goes up to 1/(400 kappa K n^2), without lambda. R is so small that a sample has at most one neuron within R of a
    kink. Every other residual is the bottom eigenvector of H(0), which contracts the slowest. Every third server step
    is 1/8.
    """
    rng = np.random.default_rng([seed, 6])
    x, weights = unit_points(rng, 4, 6), draw(width, 6, seed)
    setup = Setup(width, eta_global=1.0 if seed % 3 else 0.125, local_steps=1 + seed // 2 % 2, rounds=4, seed=seed)
    direction = rng.normal(size=4) if seed % 2 else None
    share = float(rng.uniform(0.2, 0.99)) / 1000
    if of_the_lemma:
        share *= 2.5 / float(np.linalg.eigvalsh(gram.finite(x, weights.hidden))[0])
    return paper_run(x, np.arange(4) % 2, weights, setup, share, direction)


def _any_step(
    size: int, features: int, width: int, steps: int, clients: int, share: float, server: float, seed: int
) -> FederatedRun:
    rng = np.random.default_rng(seed)
    x, weights = unit_points(rng, size, features), draw(width, features, seed)
    setup = Setup(width, eta_global=server, local_steps=steps, rounds=4, seed=seed)
    direction = rng.normal(size=size) if seed % 2 else None
    return paper_run(x, np.arange(size) % min(clients, size), weights, setup, share / 1000, direction)


# One to four points, with any labels, narrow and wide networks, and step sizes up to the limit.
_counts = [st.integers(1, 4), st.integers(2, 6), st.sampled_from([16, 256, 4096]), st.integers(1, 3)]
_shares = [st.integers(1, 3), st.floats(0.01, 0.99), st.floats(0.05, 1.0), st.integers(0, 2**16)]
ANY_STEP = st.builds(_any_step, *_counts, *_shares)
PAPER_STEPS = Family("steps of the proof", step_run, ANY_STEP, (False, 2**14), trials=12, fixed=True)
LEMMA_STEPS = Family("steps of the lemma", step_run, ANY_STEP, (True, 2**14), trials=12, fixed=True)


def long_row_in_the_premise() -> FederatedRun:
    """One row of norm 40, so that lambda = 1600, at eta_l = .0024.

    This eta_l is below lambda/1000 and 1/400, but above 2/lambda.
    """
    problem = Problem(np.array([[40.0]]), np.array([1e-3]), name="one row of norm 40")
    setup = Setup(2, eta_local=0.0024, local_steps=1, rounds=1)
    return federated_run(problem, setup, Weights(np.full((2, 1), 100.0), np.array([1.0, -1.0])))


def overshooting_steps() -> FederatedRun:
    """One point with lambda = 1, and sixteen local steps at eta_l = 3. Each of them doubles the residual."""
    return aligned_run(eta_local=3.0, rounds=1, residual=1e-10, local_steps=16)


def overshooting_server_in_the_premise() -> FederatedRun:
    """One point with lambda = 1, a client's step of 1/500, and a server's step of 2000."""
    return aligned_run(eta_local=0.002, eta_global=2000.0, rounds=1, residual=1e-4)


def lone_neuron_far_from_its_label() -> FederatedRun:
    """One neuron with a = -1, and a label out of reach.

    The first step turns the neuron off, and nothing moves afterwards.
    """
    problem = Problem(np.array([[1.0]]), np.array([1e5]), name="one neuron, a = -1")
    setup = Setup(1, eta_local=9e-4, local_steps=1, rounds=3)
    return federated_run(problem, setup, Weights(np.array([[1.0]]), np.array([-1.0])))


PREMISE = (UNIT_ROWS, POSITIVE_SPECTRUM, SMALL_AS_PRINTED, WITHIN_RADIUS, EVENTS)
NECESSITY = {
    "unit-rows": long_row_in_the_premise,
    "steps-of-the-proof": overshooting_steps,
    "within-R": lone_neuron_far_from_its_label,
}


def round_constants(case: FederatedRun) -> dict:
    """The values of n, N, K, the step sizes, lambda, R = lambda/(1000 n), and |y - y(t)| for t = 0..T-1."""
    return run_values(case, n, N, K, eta_local, eta_global, lam) | {
        R: radius(case),
        r_t: case.observed("residual_norm")[:-1],
    }
