"""What theorem B.3 requires on given data: a width, a step size, and the number of rounds with that step size."""

from dataclasses import dataclass

import numpy as np

from bounds.fl_ntk.premises import PACE, PAPER_STEP, PROVED_WIDTH, STATED_OUTPUT, STATED_WIDTH
from bounds.formula import evaluate
from bounds.symbols import K, N, delta, eta_global, eta_local, kappa, lam, m, n, r0
from ntkfl import Problem, gram, interruption
from ntkfl.messages import require_number

SETTLED = 1e-9  # the iteration with Lemma B.8 ends when the relative change of the width is below this number
MOST_TURNS = 1000  # largest number of iterations; a few are usual, since b(m) grows only as the root of ln m


@dataclass(frozen=True)
class Requirements:
    """The width, step size and rounds that the proof of theorem B.3 requires, with lambda, mu and kappa of H_inf.

    r_0 is the norm of the residual before training. width: the number of neurons if r_0^2 is |y|^2 + n/2, which is its
    mean over the networks. width_by_lemma: the number of neurons if r_0 is the bound that Lemma B.8 proves.
    width_stated: the width as the theorem prints it, with an O-constant of 1. local_time: the largest eta_l K.
    stable_step: 2/mu; a smaller eta_l is stable for every K and partition. rounds: the number after which Eq (7) bounds
    |y - y(t)|^2 by `share` of its start, if eta_l K is `local_time` and eta_g is the given one.
    """

    name: str
    n: int
    d: int
    clients: int
    smallest_eigenvalue: float
    condition_number: float
    width: float
    width_by_lemma: float
    width_stated: float
    local_time: float
    stable_step: float
    rounds: float


def requirements(problem: Problem, server_step: float = 1.0, share: float = 1e-6, failure: float = 0.1) -> Requirements:
    """The premise of theorem B.3 on these data, with the constants its proof prints; sigma = 1.

    Args:
        problem: unit rows, one output.
        server_step: eta_g; default 1.
        share: rounds are counted until the squared residual is this share of its start; default 1e-06.
        failure: delta; default 0.1.

    Raises:
        ValueError: rows that are not unit, lambda_min(H_inf) not certified positive, several outputs, or a share or a
            failure probability that is not between 0 and 1.
    Source: FL-NTK, theorem B.3, its proof, and Lemma B.8; fl-ntk/B.3, fl-ntk/B.8.
    """
    for name, value in (("share", share), ("failure", failure)):
        require_number(name, value, "lie between 0 and 1")
    require_number("server_step", server_step, "be a positive finite number")
    if problem.y.ndim != 1:
        raise ValueError(f"y has shape {problem.y.shape}; the theorem's network has one output: ({problem.n},)")
    problem.require_unit()
    h = gram.infinite_estimate(problem.x)
    lowest, highest = gram.smallest_eigenvalue(h), gram.largest_eigenvalue(h)
    if not lowest.lo > 0:
        raise ValueError(
            f"lambda_min(H_inf) is {lowest.value:.3g} +- {lowest.error:.1g}; the theorem needs it positive"
        )
    ratio = float(highest.value / lowest.value)
    given = {n: problem.n, lam: lowest, kappa: ratio, delta: failure, N: problem.n_clients, K: 1.0}
    mean = float(np.sqrt((problem.y**2).sum() + problem.n / 2))
    # eta_l for K = 1, where neither eta_l nor eta_g eta_l may exceed the theorem's step
    limit = _value(PAPER_STEP, given) / max(1.0, server_step)
    pace = _value(2 * PACE, given | {eta_local: limit, eta_global: server_step})
    return Requirements(
        name=problem.name,
        n=problem.n,
        d=problem.d,
        clients=problem.n_clients,
        smallest_eigenvalue=float(lowest.value),
        condition_number=ratio,
        width=_value(PROVED_WIDTH, given | {r0: mean}),
        width_by_lemma=_width_by_lemma(problem, given),
        width_stated=_value(STATED_WIDTH, given),
        local_time=limit,
        stable_step=2 / float(highest.value),
        rounds=pace * float(np.log(1 / share)),
    )


def _value(formula, constants: dict) -> float:
    return float(evaluate(formula, constants).value)


def _width_by_lemma(problem: Problem, given: dict) -> float:
    """The least m with m >= 6.4e7 n^3 r_0(m)^2 / lambda^4, where r_0(m)^2 = n (Y + b(m))^2 as in Lemma B.8.

    The iteration contracts, since b(m) grows only as the root of ln m.
    """
    width = _value(PROVED_WIDTH, given | {r0: 1.0})
    for _ in range(MOST_TURNS):
        interruption.check()
        before = width
        output = _value(STATED_OUTPUT, given | {m: width})
        residual = float(np.sqrt(problem.n) * (np.abs(problem.y).max() + output))
        width = _value(PROVED_WIDTH, given | {r0: residual})
        if abs(width - before) <= SETTLED * width:
            return width
    raise ArithmeticError(f"the width of Lemma B.8 does not settle: {before:.6g}, then {width:.6g}")
