"""Statements on methods in the kernel regime: a round is a map of the residual, or of a state of residual and memory.

The methods are FedProx, IMA, cyclic training, momentum and SCAFFOLD.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Hypothesis, Kind, Source, Statement
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.method_training import OTHER_METHODS, Training, engine_residuals, final_residuals
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, TWO_LOCAL_STEPS, at_most
from bounds.fl_ntk.terms.local_methods import FEDPROX, MOMENTUM, OF_MOMENTUM, PULL, beta, mu, shares, shares_of
from bounds.fl_ntk.terms.round_map import IDENTITY, MAP_SYMBOLS, RESPONSE, D, H, map_constants, start
from bounds.fl_ntk.terms.state_map import AFTER, CONTROL, MAP, NOTHING, first, halves, second, state_map
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced, sign_flipped
from bounds.statement import Mutant
from bounds.symbols import K, N, T, eta_global, eta_local, n
from ntkfl.estimate import Estimate


def method_maps(
    label: str,
    title: str,
    *,
    note: str,
    methods: tuple[str, ...],
    after: Callable[[], tuple[sp.MatrixExpr, ...]],
    trainings: Callable[[FederatedRun], tuple[Training, ...]],
    values: Callable[[FederatedRun], Mapping[Any, Any]],
    symbols: Mapping[Any, str],
    mutants: tuple[Mutant, ...],
    uses: tuple[str, ...],
    hypotheses: tuple[Hypothesis, ...] = (),
) -> Statement:
    """The statement that the linearised network and its kernel regime have the residual `after()`, under each method.

    Three mutants come with every such statement: a factor, a power of eta_l, and the number of rounds.
    """

    def constants(case: FederatedRun) -> dict[Any, Any]:
        known = {
            shares: shares_of(case.problem),
            start: engine_residuals(case, trainings(case)[0])[:, :1],
            T: case.setup.rounds,
        }
        return map_constants(case, case.initial_gram) | known | dict(values(case))

    return Statement(
        id=f"fl-ntk/{label}",
        title=title,
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#state-maps"),
        note=note,
        hypotheses=(at_most(400), POSITIVE_SPECTRUM, *hypotheses),
        new=Claim(lambda: after() * 2, note=", ".join(methods)),
        constants=constants,
        measure=lambda case: final_residuals(case, trainings(case)),
        symbols=MAP_SYMBOLS
        | {shares: "n_c/n of each sample's client, on the diagonal", start: "y(0) - y"}
        | dict(symbols),
        left_formula=("y(T) - y",) * 2 * len(methods),
        says_left="y(T) - y, T = 5, under each method: of the linearised network trained by the engine, and of the "
        "library's kernel regime",
        families=(OTHER_METHODS,),
        mutants=(MILLIONTH_MORE, power(eta_local, sp.Rational(1, 2)), index_shifted(T, 1), *mutants),
        uses=uses,
    )


earlier = sp.MatrixSymbol("L", n, n)


def _averaged() -> tuple[sp.MatrixExpr, ...]:
    """The residual after T rounds of each method."""
    turns = IDENTITY + eta_global * RESPONSE * earlier
    cyclic = IDENTITY - eta_global * H * turns**-1 * RESPONSE
    halves_of = state_map(MAP / 2, MAP / 2, IDENTITY, NOTHING)  # the mean of the last two models is sent out
    return (
        FEDPROX**T * start,
        cyclic**T * start,
        (first.T + second.T) / 2 * halves_of ** (T - 1) * (first + second) * MAP * start,
    )


def _averaged_trainings(case: FederatedRun) -> tuple[Training, ...]:
    rate = {"server_rate": case.setup.eta_global}
    return Training("fedprox", rate | {"mu": PULL}), Training("cyclic", rate), Training("fedavg", rate, window=2)


def _averaged_values(case: FederatedRun) -> dict:
    owner = case.problem.owner
    return {earlier: case.initial_gram * (owner[:, None] > owner), mu: PULL} | halves(case.problem.n)


FACTORS = (1.0, 0.25)

factor = sp.Symbol("phi", positive=True)
second_rate, normalised = sp.MatrixSymbol("E", n, n), sp.MatrixSymbol("S_nova", n, n)


def _of_local_steps() -> tuple[sp.MatrixExpr, ...]:
    """The residual after T rounds of each method."""
    schedule = eta_local * (1 + factor) * IDENTITY - factor * eta_local**2 * D
    uneven = eta_local * IDENTITY + second_rate * (eta_local * IDENTITY - eta_local**2 * D)
    return (
        (IDENTITY - eta_global * H * shares * OF_MOMENTUM) ** T * start,
        (IDENTITY - eta_global * H * shares * schedule) ** T * start,
        (IDENTITY - eta_global * H * shares * uneven) ** T * start,
        (IDENTITY - H * normalised * uneven) ** T * start,
    )


def _client_steps(case: FederatedRun) -> tuple[int, ...]:
    """The clients' numbers of local steps, which are 1, 2, 1, 2, ..."""
    return tuple(1 + client % 2 for client in range(case.problem.n_clients))


def _local_trainings(case: FederatedRun) -> tuple[Training, ...]:
    rate, uneven = {"server_rate": case.setup.eta_global}, _client_steps(case)
    return (
        Training("fedavg", rate, momentum=MOMENTUM),
        Training("fedavg", rate, step_factors=FACTORS),
        Training("fedavg", rate, client_steps=uneven),
        Training("fednova", {}, client_steps=uneven),
    )


def _local_values(case: FederatedRun) -> dict:
    size, owner = case.problem.n, case.problem.owner
    sizes, steps = np.bincount(owner), np.array(_client_steps(case))
    return {
        normalised: np.diag((sizes @ steps / size * sizes / steps / size)[owner]),
        second_rate: np.diag((steps[owner] == 2).astype(float)),
        beta: MOMENTUM,
        factor: FACTORS[1],
    }


def _state_trainings(case: FederatedRun) -> tuple[Training, ...]:
    rate = {"server_rate": case.setup.eta_global}
    return (
        Training("fedavgm", rate | {"momentum": MOMENTUM}),
        Training("fedavgm", rate | {"momentum": MOMENTUM, "nesterov": True}),
        Training("scaffold", rate),
        Training("feddyn", {"alpha": PULL}),
    )


prox, heavy, scaffold, before = (sp.MatrixSymbol(f"r_{name}", n, T) for name in ("prox", "mom", "scaf", "before"))

# the mean of the residuals in the local steps of the SCAFFOLD round that takes `before` to `scaffold`
MEAN_RESIDUAL = N / (eta_global * eta_local * K) * H**-1 * (before - scaffold)
CORRECTION = D**-1 * (eta_local * K * IDENTITY - RESPONSE) * (H / N - D) * MEAN_RESIDUAL


def _residuals(case: FederatedRun) -> tuple[Estimate, ...]:
    """y(t) - y, (n, T+1), under FedProx, FedAvg with local momentum, and SCAFFOLD, by the training engine."""
    rate = {"server_rate": case.setup.eta_global}
    return (
        engine_residuals(case, Training("fedprox", {"mu": PULL} | rate)),
        engine_residuals(case, Training("fedavg", rate, MOMENTUM)),
        engine_residuals(case, Training("scaffold", rate)),
    )


def _constants(case: FederatedRun) -> dict:
    of_prox, of_momentum, of_scaffold = _residuals(case)
    return map_constants(case, case.initial_gram) | {
        shares: shares_of(case.problem),
        mu: PULL,
        beta: MOMENTUM,
        prox: of_prox[:, :-1],
        heavy: of_momentum[:, :-1],
        scaffold: of_scaffold[:, 1:-1],
        before: of_scaffold[:, :-2],
    }


def _measure(case: FederatedRun) -> tuple[Estimate, ...]:
    of_prox, of_momentum, of_scaffold = _residuals(case)
    return of_prox[:, 1:], of_momentum[:, 1:], of_scaffold[:, 2:]


STATEMENTS = (
    method_maps(
        "averaging-maps",
        "FedProx, cyclic training and IMA in the kernel regime: powers of a map",
        note="FedProx and FedAvg under IMA have weights n_c/n. In cyclic training client c trains on the residual that "
        "the clients before it leave: its coefficients are m_c = g P_c (r - L m)_c, so that (I + g P L) m = g P r. IMA "
        "sends out the mean of the last two models; after the first round it sends out that round's model",
        methods=("FedProx", "cyclic", "IMA"),
        after=_averaged,
        trainings=_averaged_trainings,
        values=_averaged_values,
        symbols={
            earlier: "H(0) between a client's samples and those of the clients before it",
            mu: "FedProx's pull",
            first: "takes r to the state (r, 0)",
            second: "takes the previous model's residual r to the state (0, r)",
        },
        mutants=(
            replaced(mu, 2 * mu, "twice the pull", Change.CONSTANT),
            replaced(earlier, 2 * earlier, "turns that count twice for those who follow", Change.FACTOR),
            replaced(second, 2 * second, "a window whose older model counts twice", Change.FACTOR),
        ),
        uses=("fl-ntk/X.1", "fl-ntk/state-maps"),
    ),
    method_maps(
        "local-steps",
        "Local momentum, schedules and clients with unequal numbers of steps in the kernel regime",
        note="there are two local steps, so that a client's response f(q) is a polynomial of degree 1. With unequal "
        "numbers of steps, clients 0, 2, ... take only one step. FedNova moves by sum p_c K_c times sum (p_c / K_c) "
        "Delta_c",
        methods=("momentum", "a schedule", "unequal numbers of steps", "FedNova with unequal numbers of steps"),
        after=_of_local_steps,
        trainings=_local_trainings,
        values=_local_values,
        symbols={
            normalised: "n_c/n times sum_b p_b K_b over K_c, on the diagonal",
            second_rate: "1 for samples whose client takes a second step, on the diagonal",
            beta: "momentum of the clients",
            factor: "size of the second step over that of the first",
        },
        mutants=(
            replaced(beta, 0, "no momentum", Change.FACTOR),
            replaced(factor, 1, "steps of one size", Change.FACTOR),
            replaced(second_rate, IDENTITY, "two steps of every client", Change.FACTOR),
            replaced(normalised, shares, "FedNova that does not divide by the steps", Change.FACTOR),
        ),
        uses=("fl-ntk/X.1", "fl-ntk/averaging-maps"),
        hypotheses=(TWO_LOCAL_STEPS,),
    ),
    method_maps(
        "state-maps",
        "Server momentum, SCAFFOLD and FedDyn in the kernel regime: powers of a map of the state",
        note="the heavy ball's state is (r(t), r(t-1)), from (r_0, r_0). Nesterov's state is the same for the points "
        "before extrapolation; clients and evaluations get the extrapolated points. SCAFFOLD (option II, equal "
        "weights) has the state (r, b), where the control of client c is -Phi_c'b_c; FedDyn (equal weights, as in the "
        "training engine) has the state (r, d), where the dual of client c is Phi_c'd_c; both start from (r_0, 0). "
        "Server momentum has weights n_c/n",
        methods=tuple(AFTER),
        after=lambda: tuple(AFTER.values()),
        trainings=_state_trainings,
        values=lambda case: {beta: MOMENTUM, mu: PULL} | halves(case.problem.n),
        symbols={
            beta: "momentum of the server",
            mu: "FedDyn's pull",
            first: "takes r to the state (r, 0)",
            second: "takes a memory v to the state (0, v)",
        },
        mutants=(
            replaced(beta, 0, "no momentum", Change.FACTOR),
            replaced(mu, 2 * mu, "twice the pull", Change.CONSTANT),
            replaced(CONTROL, IDENTITY, "controls that keep what they were", Change.FACTOR),
        ),
        uses=("fl-ntk/X.1",),
    ),
    Statement(
        id="fl-ntk/X.14",
        title="FedProx, local momentum and SCAFFOLD in the kernel regime",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#state-maps"),
        note="a client moves by its own features times P r. Under FedProx P is f_K of H_cc + mu I. With momentum "
        "beta, which starts anew each round, P is eta_l ((2 + beta) I - eta_l H_cc) for two local steps. Both have "
        "weights n_c/n. SCAFFOLD (option II, equal weights) steps along r_c + H_c. a/N - H_cc a_c, where a is the "
        "mean of the residuals in the last round's local steps. a is H^-1 N/(eta_g eta_l K) times the decrease of "
        "the residual in that round, so that two rounds determine the next",
        hypotheses=(at_most(400), POSITIVE_SPECTRUM, TWO_LOCAL_STEPS),
        new=Claim(
            (
                FEDPROX * prox,
                (IDENTITY - eta_global * H * shares * OF_MOMENTUM) * heavy,
                scaffold - eta_global / N * H * (RESPONSE * scaffold - CORRECTION),
            ),
            note="two local steps; SCAFFOLD from its second round on",
        ),
        constants=_constants,
        measure=_measure,
        symbols=MAP_SYMBOLS
        | {
            shares: "n_c/n of each sample's client, on the diagonal",
            mu: "strength of FedProx's proximal term",
            beta: "momentum of the clients' steps",
            prox: "y(t) - y under FedProx, one column per round",
            heavy: "y(t) - y under FedAvg with local momentum",
            scaffold: "y(t) - y under SCAFFOLD, t = 1..T-1",
            before: "y(t-1) - y under SCAFFOLD, t = 1..T-1",
        },
        left_formula=("y(t+1) - y",) * 3,
        says_left="y(t+1) - y of the linearised network trained by the engine: FedProx, FedAvg with local momentum, "
        "SCAFFOLD",
        families=(OTHER_METHODS,),
        mutants=(
            MILLIONTH_MORE,
            power(eta_local, sp.Rational(1, 2)),
            replaced(mu, 0, "no proximal term", Change.FACTOR),
            replaced(beta, 0, "no momentum", Change.FACTOR),
            sign_flipped(before, "the residual a round before"),
        ),
        uses=("fl-ntk/X.1",),
    ),
)
