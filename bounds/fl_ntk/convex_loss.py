"""Statements on Algorithm 1 with any convex loss: a recursion for its outputs, and a bound on its losses."""

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from scipy.optimize import minimize

from bounds import BEYOND, Case, Change, Claim, Family, Hypothesis, Kind, Options, Source, Statement
from bounds.cases.kernel_case import EPS
from bounds.federated_run import ORDER_SAFETY, FederatedFamily, federated_families, run_values
from bounds.fl_ntk.premises import SERVER_AT_MOST_1, at_most
from bounds.fl_ntk.terms.round_map import MAP_SYMBOLS, H
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced, sign_flipped
from bounds.strategies import log_uniform, networks, partitions, points
from bounds.symbols import K, N, T, eta_global, eta_local, n
from ntkfl import Estimate, Problem, Setup, Trajectory, Weights, gram, kernel_regime
from ntkfl.initialisation import draw as network
from ntkfl.limit.convex_loss import LOGISTIC, SQUARES, ConvexLoss

LOSSES = (LOGISTIC, SQUARES)
# Least error, in roundings of the sum. Without a least error the error could be 0, since sums over few neurons in two
# orders may agree by chance.
ROUNDINGS = 256


@dataclass(frozen=True, eq=False)
class ConvexRun(Case):
    """Data with labels -1 and +1, step sizes, and a network. The runs with both losses are made at their first use."""

    problem: Problem
    setup: Setup
    weights: Weights

    @cached_property
    def gram(self) -> Estimate:
        """H(0), (n, n), as an enclosure."""
        return gram.finite_estimate(self.problem.x, self.weights.hidden)

    @cached_property
    def largest_block(self) -> float:
        """max_c |H_cc(0)|."""
        return max(float(np.linalg.eigvalsh(self.gram.value[np.ix_(c, c)])[-1]) for c in self.problem.members)

    @cached_property
    def start(self) -> np.ndarray:
        """f_0, the outputs at the start, (n,)."""
        return self.weights.outputs(self.problem.x)

    @cached_property
    def _runs(self) -> tuple[tuple[Trajectory, Trajectory], ...]:
        """For each loss two runs, with the neurons in two orders."""
        from ntkfl.training.engine_trajectory import engine_trajectory  # here, since torch loads slowly
        from ntkfl.training.methods import fl_ntk
        from ntkfl.training.objectives import HalfSquares, LogisticLoss

        w, by_loss = self.weights, []
        for objective in (LogisticLoss(), HalfSquares("sum")):
            method = fl_ntk.method(objective, server_rate=self.setup.eta_global)
            how: dict[str, Any] = {"method": method, "linearised": True, "movements": False}
            runs = [
                engine_trajectory(self.problem, self.setup, order, **how)
                for order in (w, Weights(w.hidden[::-1], w.signs[::-1]))
            ]
            by_loss.append((runs[0], runs[1]))
        return tuple(by_loss)

    def mean_loss(self, loss: int) -> Estimate:
        """The mean over rounds and local steps of the sum of the clients' losses, each at the client's own model."""
        losses = [LOSSES[loss].value(run.local_outputs[:, :-1], self.problem.y) for run in self._runs[loss]]
        value, other = (part.sum(axis=2).mean() for part in losses)
        rounding = ROUNDINGS * EPS * (value + self.problem.n)
        return Estimate(value, ORDER_SAFETY * abs(value - other) + rounding, "two summation orders")

    def outputs(self, loss: int) -> Estimate:
        """f(t) for t = 0..T, (n, T + 1), the outputs of the trained network."""
        value, other = (run.outputs.T for run in self._runs[loss])
        error = ORDER_SAFETY * np.abs(value - other).max() + ROUNDINGS * EPS * self.largest_output(loss)
        return Estimate(value, np.full(value.shape, error), "two summation orders")

    def largest_output(self, loss: int) -> float:
        """The largest output of a client's own model.

        For unstable steps these outputs grow, although they cancel in the mean.
        """
        return float(np.abs(self._runs[loss][0].local_outputs).max())

    def regularised(self, loss: ConvexLoss) -> tuple[Estimate, Estimate]:
        """alpha^T H alpha and F(f_0 + H alpha), near the alpha that minimises their weighted sum in the bound."""
        setup, h, y = self.setup, self.gram.value, self.problem.y
        ridge = self.problem.n_clients / (setup.eta_local * setup.eta_global * setup.local_steps * setup.rounds)

        def objective(alpha: np.ndarray) -> tuple[float, np.ndarray]:
            outputs = self.start + h @ alpha
            slope = h @ (ridge * alpha + loss.slope(outputs, y))
            return float(ridge / 2 * alpha @ h @ alpha + loss.value(outputs, y).sum()), slope

        begin = -loss.slope(self.start, y) / (ridge + loss.smoothness * np.linalg.eigvalsh(h)[-1])
        alpha = minimize(objective, begin, jac=True, method="L-BFGS-B", tol=1e-15, options={"maxiter": 500}).x
        size, left = float(alpha @ h @ alpha), float(loss.value(self.start + h @ alpha, y).sum())
        rounding = ROUNDINGS * EPS * self.problem.n
        return Estimate(size, rounding * size, "rounding"), Estimate(left, rounding * (left + 1), "rounding")

    def slopes(self, loss: ConvexLoss) -> Estimate:
        """l' at the outputs of each client's own model, summed over the local steps of a round from f(t), (n, T)."""
        outputs, y = self.outputs(LOSSES.index(loss)), self.problem.y[:, None]
        own = self.gram.value * (self.problem.owner[:, None] == self.problem.owner)
        local_outputs, total = outputs.value[:, :-1], np.zeros((self.problem.n, self.setup.rounds))
        for _ in range(self.setup.local_steps):
            slope = loss.slope(local_outputs, y)
            total, local_outputs = total + slope, local_outputs - self.setup.eta_local * own @ slope
        growth = (1 + self.setup.eta_local * loss.smoothness * self.largest_block) ** self.setup.local_steps
        rounding = ROUNDINGS * EPS * (1 + self.largest_output(LOSSES.index(loss)))
        error = self.setup.local_steps * growth * (outputs.error.max() + rounding)
        return Estimate(total, np.full(total.shape, error), "two summation orders")

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        return {"problem": self.problem.name, "N": self.problem.n_clients} | asdict(self.setup)


def gathered(seed: int, clients: int, steps: int, rounds: int, share: float, server: float = 1.0) -> ConvexRun:
    """Eight points near one direction, all with label +1. For them the bound is sharp."""
    rng = np.random.default_rng([seed, 7])
    x = np.eye(4)[0] + 0.3 * rng.standard_normal((8, 4)) / 2
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    problem = Problem(x, np.ones(8), rng.permutation(np.arange(8) % clients), name="eight points near one direction")
    run = ConvexRun(problem, Setup(width=128), network(128, 4, seed))
    setup = Setup(
        width=128, eta_local=share / run.largest_block, eta_global=server, local_steps=steps, rounds=rounds, seed=seed
    )
    return replace(run, setup=setup)


def _gathered(seed: int) -> ConvexRun:
    """One to four clients, one or two local steps, and one to three rounds. eta_l is .001 to .9 of its limit."""
    rng = np.random.default_rng([seed, 8])
    share = float(np.exp(rng.uniform(np.log(1e-3), np.log(0.9))))
    server = 1.0 if seed % 2 else float(rng.uniform(0.3, 1))
    rounds, steps = (1, 1) if seed % 4 < 2 else (int(rng.integers(1, 4)), 2)
    return gathered(seed, 1 + seed // 2 % 4, steps, rounds, share, server)


def _with_signs(base: FederatedFamily, seed: int) -> ConvexRun:
    """The data of a FederatedFamily with the signs of its labels as labels, on a network of 512 neurons by default."""
    problem = base.problem(seed)
    signs = Problem(problem.x, np.where(problem.y < 0, -1.0, 1.0), problem.owner, name=problem.name)
    setup = replace(base.setup, seed=seed)
    return ConvexRun(signs, setup, network(setup.width, problem.d, seed, setup.sigma))


@st.composite
def _convex_runs(draw: DrawFn) -> ConvexRun:
    """Small runs on any data with labels -1 and +1, with step sizes on both sides of the limit.

    No neuron is at its kink. For a neuron at its kink, rounding would decide in the engine whether the neuron is
    active. In the computation of H(0), rounding would not decide this.
    """
    x = draw(points((1, 4), (1, 3)))
    owner = draw(partitions(len(x), clients=(1, 3)))
    y = np.array(draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=len(x), max_size=len(x))))
    weights = draw(networks(x.shape[1], (1, 32)).filter(lambda net: not gram.doubtful(x, net.hidden).any()))
    run = ConvexRun(Problem(x, y, owner, name="drawn"), Setup(width=len(weights.signs)), weights)
    setup = Setup(
        width=len(weights.signs),
        eta_local=draw(log_uniform(1e-3, 8)) / (run.largest_block or 1.0),
        eta_global=draw(log_uniform(0.05, 2)),
        local_steps=draw(st.integers(1, 4)),
        rounds=draw(st.integers(1, 8)),
    )
    return replace(run, setup=setup)


CONVEX_RUNS = _convex_runs()
GATHERED = Family("eight points near one direction, labels 1", _gathered, CONVEX_RUNS, trials=12, most=12)


def convex_families(options: Options) -> tuple[Family, ...]:
    """The family `GATHERED`, and the default families or the user's data, at width 512 over 10 rounds."""
    bases = federated_families(replace(options, width=options.width or 512), "", rounds=10)
    trials = min(5, options.trials or 5)
    return GATHERED.with_trials(options.trials), *(
        Family(f"{base.name}, linearised, signs as labels", _with_signs, CONVEX_RUNS, (base,), trials) for base in bases
    )


largest = sp.Symbol("mu_D", positive=True)
SIZES, LEFT = sp.symbols("S_log S_sq", positive=True), sp.symbols("F_log F_sq", positive=True)
OUTPUTS = tuple(sp.MatrixSymbol(f"f_{name}", n, T) for name in ("log", "sq"))
SLOPES = tuple(sp.MatrixSymbol(f"l_{name}", n, T) for name in ("log", "sq"))


def _bound(part: int) -> sp.Expr:
    factor = 1 - eta_local * sp.Rational(LOSSES[part].smoothness) * largest
    return (N * SIZES[part] / (2 * eta_local * eta_global * K * T) + LEFT[part]) / factor


def _round(part: int) -> sp.MatrixExpr:
    return OUTPUTS[part] - eta_local * eta_global / N * H * SLOPES[part]


def _constants(case: ConvexRun) -> dict:
    values = run_values(case, eta_local, eta_global, K, T, N) | {
        largest: Estimate(case.largest_block, 1e-13 * case.largest_block, "rounding")
    }
    for part, loss in enumerate(LOSSES):
        values[SIZES[part]], values[LEFT[part]] = case.regularised(loss)
    return values


def _rounds_constants(case: ConvexRun) -> dict:
    values = run_values(case, eta_local, eta_global, K, T, N) | {H: case.gram}
    for part, loss in enumerate(LOSSES):
        values |= {OUTPUTS[part]: case.outputs(part)[:, :-1], SLOPES[part]: case.slopes(loss)}
    return values


def _measure_rounds(case: ConvexRun) -> tuple[Estimate, ...]:
    trained_columns = []
    for part, loss in enumerate(LOSSES):
        trained = case.outputs(part)
        many = replace(case.problem, y=np.repeat(case.problem.y[:, None], case.setup.rounds, axis=1))
        value = kernel_regime(many, case.setup, case.gram.value, loss=loss).outputs(1, trained.value[:, :-1])
        rounding = 1e-13 * (case.largest_output(part) + 1)
        library = Estimate(value, np.full(value.shape, rounding + trained.error.max()), "rounding")
        trained_columns += [trained[:, 1:], library]
    # with one round the formulas give a single column
    return tuple(trained_columns) if case.setup.rounds > 1 else tuple(column[:, 0] for column in trained_columns)


SHORT = Hypothesis(
    "short-steps", "eta_l max_c |H_cc| < 1, so that both losses are covered: squares have b = 1, logistic b = 1/4",
    lambda case: 1 - 1e-9 - case.setup.eta_local * case.largest_block,
)  # fmt: skip
SIGNS = Hypothesis("signs", "labels -1 and +1", lambda case: -float(np.abs(np.abs(case.problem.y) - 1).max()))


STATEMENTS = (
    Statement(
        id="fl-ntk/convex-loss",
        title="Any convex loss: the mean local loss is at most kernel regression with the ridge N over the total step",
        kind=Kind.UPPER,
        source=Source(BEYOND, "docs/proofs/convex_loss.md#the-mean-loss"),
        note="l >= 0 is convex with |l'|^2 <= 2 b l, and L = b max_c |H_cc|; any K, N and partition. The mean is "
        "over rounds and local steps, of the sum of the clients' losses, each at the client's own model. The proof "
        "sums |w+ - u|^2 <= |w - u|^2 - 2 eta_l (1 - eta_l L) F_c(w) + 2 eta_l F_c(u), where w+ is w after a local "
        "step; the server's step is a convex combination",
        hypotheses=(at_most(400), SIGNS, SHORT, SERVER_AT_MOST_1),
        new=Claim((_bound(0), _bound(1)), note="first the logistic loss, then squares"),
        constants=_constants,
        measure=lambda case: (case.mean_loss(0), case.mean_loss(1)),
        symbols={
            largest: "max_c |H_cc(0)|",
            SIZES[0]: "alpha'H alpha at the alpha that makes the logistic loss's bound least",
            SIZES[1]: "the same of squares",
            LEFT[0]: "F(f_0 + H alpha) at that alpha, for the logistic loss",
            LEFT[1]: "the same of squares",
        },
        left_formula=tuple(f"mean_{{t,k}} sum_c F_{{{name},c}}(w_{{k,c}}(t))" for name in ("log", "sq")),
        says_left="the mean loss of the clients along the run of the training engine on the linearised network",
        families=convex_families,
        mutants=(
            replaced(largest, 0, "without 1 - eta_l L", Change.FACTOR),
            replaced(N, sp.sqrt(N), "N to the power 1/2", Change.POWER),
            index_shifted(K, 1),
        ),
        # The steps of the only client fit the labels. The server goes five times as far, so that its overshoot grows.
        necessity={"eta_g-at-most-1": lambda: gathered(0, clients=1, steps=8, rounds=8, share=0.9, server=5.0)},
    ),
    Statement(
        id="fl-ntk/convex-loss-recursion",
        title="Any convex loss: a round at infinite width is a recursion in the outputs, exactly",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/convex_loss.md#the-recursion"),
        note="a client takes K steps f_c <- f_c - eta_l H_cc l'(f_c); the server adds eta_g/N times their coefficients",
        hypotheses=(at_most(400), SIGNS),
        new=Claim((_round(0), _round(0), _round(1), _round(1)), note="logistic, squares"),
        constants=_rounds_constants,
        measure=_measure_rounds,
        symbols={
            H: MAP_SYMBOLS[H],
            OUTPUTS[0]: "f(t) under the logistic loss, one column per round",
            OUTPUTS[1]: "the same under squares",
            SLOPES[0]: "sum over the local steps of l' at the outputs of each client's own model, one column per round",
            SLOPES[1]: "the same under squares",
        },
        left_formula=("f(t+1)",) * 4,
        says_left="f(t+1) of the linearised network trained by the engine, and of the library's regime one round after "
        "f(t); for both losses",
        families=convex_families,
        mutants=(
            MILLIONTH_MORE,
            power(eta_local, sp.Rational(1, 2)),
            power(N, 2),
            sign_flipped(eta_global, "the server's step"),
        ),
        uses=("fl-ntk/X.1",),
    ),
)
