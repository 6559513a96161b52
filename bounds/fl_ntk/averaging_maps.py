"""FedProx, IMA and cyclic training in the kernel regime: the residual after T rounds by the map of a round."""

import sympy as sp

from bounds import Change
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.method_training import Training
from bounds.fl_ntk.terms.local_methods import FEDPROX, PULL, mu
from bounds.fl_ntk.terms.method_maps import method_maps
from bounds.fl_ntk.terms.round_map import IDENTITY, RESPONSE, H, start
from bounds.fl_ntk.terms.state_map import MAP, NOTHING, first, halves, second, state_map
from bounds.mutants import replaced
from bounds.symbols import T, eta_global, n

earlier = sp.MatrixSymbol("L", n, n)


def _after() -> tuple[sp.MatrixExpr, ...]:
    """The residual after T rounds of each method."""
    turns = IDENTITY + eta_global * RESPONSE * earlier
    cyclic = IDENTITY - eta_global * H * turns**-1 * RESPONSE
    halves_of = state_map(MAP / 2, MAP / 2, IDENTITY, NOTHING)  # the mean of the last two models is sent out
    return (
        FEDPROX**T * start,
        cyclic**T * start,
        (first.T + second.T) / 2 * halves_of ** (T - 1) * (first + second) * MAP * start,
    )


def _trainings(case: FederatedRun) -> tuple[Training, ...]:
    rate = {"server_rate": case.setup.eta_global}
    return Training("fedprox", rate | {"mu": PULL}), Training("cyclic", rate), Training("fedavg", rate, window=2)


def _values(case: FederatedRun) -> dict:
    owner = case.problem.owner
    return {earlier: case.initial_gram * (owner[:, None] > owner), mu: PULL} | halves(case.problem.n)


STATEMENTS = (
    method_maps(
        "averaging-maps",
        "FedProx, cyclic training and IMA in the kernel regime: powers of a map",
        note="FedProx and FedAvg under IMA have weights n_c/n. In cyclic training client c trains on the residual that "
        "the clients before it leave: its coefficients are m_c = g P_c (r - L m)_c, so that (I + g P L) m = g P r. IMA "
        "sends out the mean of the last two models; after the first round it sends out that round's model",
        methods=("FedProx", "cyclic", "IMA"),
        after=_after,
        trainings=_trainings,
        values=_values,
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
)
