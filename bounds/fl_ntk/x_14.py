"""X.14: FedProx, local momentum and SCAFFOLD in the kernel regime, as maps of the residual."""

import sympy as sp

from bounds import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.method_training import OTHER_METHODS, Training, engine_residuals
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, TWO_LOCAL_STEPS, at_most
from bounds.fl_ntk.terms.local_methods import FEDPROX, MOMENTUM, OF_MOMENTUM, PULL, beta, mu, shares, shares_of
from bounds.fl_ntk.terms.round_map import IDENTITY, MAP_SYMBOLS, RESPONSE, D, H, map_constants
from bounds.mutants import MILLIONTH_MORE, power, replaced, sign_flipped
from bounds.symbols import K, N, T, eta_global, eta_local, n
from ntkfl.estimate import Estimate

prox, heavy, scaffold, before = (sp.MatrixSymbol(f"r_{name}", n, T) for name in ("prox", "mom", "scaf", "before"))

MEAN_RESIDUAL = N / (eta_global * eta_local * K) * H**-1 * (before - scaffold)  # a: over the round's local steps
CORRECTION = D**-1 * (eta_local * K * IDENTITY - RESPONSE) * (H / N - D) * MEAN_RESIDUAL


def _residuals(case: FederatedRun) -> tuple[Estimate, ...]:
    """y(t) - y, (n, T+1), of FedProx, of FedAvg with local momentum, and of SCAFFOLD, by the training engine."""
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
    Statement(
        id="fl-ntk/X.14",
        title="FedProx, local momentum and SCAFFOLD in the kernel regime",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#state-maps",
            note="a client moves by its own features times P r. Under FedProx P is f_K of H_cc + mu I. With momentum "
            "beta, which starts anew each round, P is eta_l ((2 + beta) I - eta_l H_cc) for two local steps. Both have "
            "weights n_c/n. SCAFFOLD (option II, equal weights) steps along r_c + H_c. a/N - H_cc a_c, where a is the "
            "mean of the residuals in the last round's local steps. a is H^-1 N/(eta_g eta_l K) times the decrease of "
            "the residual in that round, so that two rounds determine the next",
        ),
        hypotheses=(at_most(400), POSITIVE_SPECTRUM, TWO_LOCAL_STEPS),
        forms={
            Form.NEW: Claim(
                (
                    FEDPROX * prox,
                    (IDENTITY - eta_global * H * shares * OF_MOMENTUM) * heavy,
                    scaffold - eta_global / N * H * (RESPONSE * scaffold - CORRECTION),
                ),
                note="two local steps; SCAFFOLD from its second round on",
            )
        },
        constants=_constants,
        measure=_measure,
        symbols=MAP_SYMBOLS
        | {
            shares: "n_c/n of each sample's client, on the diagonal",
            mu: "strength of FedProx's proximal term",
            beta: "momentum of the clients' steps",
            prox: "y(t) - y under FedProx, one column a round",
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
