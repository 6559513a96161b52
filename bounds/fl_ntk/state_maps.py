"""Methods with memory in the kernel regime: the residual after T rounds, by the T-th power of a map of the state."""

from bounds import Change
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.method_training import Training
from bounds.fl_ntk.terms.local_methods import MOMENTUM, PULL, beta, mu
from bounds.fl_ntk.terms.method_maps import method_maps
from bounds.fl_ntk.terms.round_map import IDENTITY
from bounds.fl_ntk.terms.state_map import AFTER, CONTROL, first, halves, second
from bounds.mutants import replaced


def _trainings(case: FederatedRun) -> tuple[Training, ...]:
    rate = {"server_rate": case.setup.eta_global}
    return (
        Training("fedavgm", rate | {"momentum": MOMENTUM}),
        Training("fedavgm", rate | {"momentum": MOMENTUM, "nesterov": True}),
        Training("scaffold", rate),
        Training("feddyn", {"alpha": PULL}),
    )


STATEMENTS = (
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
        trainings=_trainings,
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
)
