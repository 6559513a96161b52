"""Four points trained at Lemma C.7's own step, for as many rounds as its bound needs to be near the truth."""

import numpy as np
from hypothesis import strategies as st

from bounds.family import Family
from bounds.federated_run import FederatedRun, federated_run
from ntkfl import data, gram
from ntkfl.problem import Setup

ROUNDS = 2000


def printed_step_run(width: int, sigma: float, seed: int) -> FederatedRun:
    """Four points on one or two clients, labels +-1, one or two local steps, eta_l = .99 lambda/(n^2 K kappa)."""
    steps = 1 + seed % 2
    problem = data.sphere(4, 6, seed=seed, clients=1 + seed // 2 % 2, labels="sign")
    values = np.linalg.eigvalsh(gram.infinite(problem.x))
    eta_local = 0.99 * values[0] ** 2 / (values[-1] * problem.n**2 * steps)
    setup = Setup(width, sigma=sigma, eta_local=float(eta_local), local_steps=steps, rounds=ROUNDS, seed=seed)
    return federated_run(problem, setup)


FOUR_POINTS = Family(
    f"four points, the printed step, {ROUNDS} rounds",
    printed_step_run,
    st.builds(printed_step_run, st.sampled_from([64, 256, 1024]), st.floats(0.05, 1.0), st.integers(0, 2**16)),
    (1024, 0.25),
    trials=10,
    fixed=True,
)
