"""The default runs, linearised, or at steps with eta_l n K <= 1.2564, for which bounds on a round's progress apply."""

from bounds import Options
from bounds.family import with_own
from bounds.federated_run import FederatedFamily, federated_families
from bounds.fl_ntk.families.few_points import ALIGNED_POINTS, WEDGES


def linearised_families(options) -> tuple:
    """Networks linearised in their weights, trained in parameter space; few, since each round has many columns."""
    return federated_families(options, label="linearised", linearised=True, movements=True, rounds=40)


def small_steps(options: Options) -> tuple[FederatedFamily, ...]:
    """Default families, or the user's data, at eta_l = .03."""
    return federated_families(options, label="eta_l=.03", movements=True, eta_local=0.03)


def small_step_runs(options: Options) -> tuple[FederatedFamily, ...]:
    """Default families at eta_l = .03; on the user's data eta_l n K <= 1.2, unless the user chose a step."""
    if options.data is None:
        return small_steps(options)
    size = federated_families(options)[0].problem(options.seed).n
    step = min(0.03, 1.2 / (size * (options.local_steps or 2)))
    return federated_families(options, label=f"eta_l={step:.2g}", movements=True, eta_local=step)


small_step_families = with_own(small_step_runs, ALIGNED_POINTS)  # aligned points, where the bounds are sharp
moving_families = with_own(small_step_runs, WEDGES)  # wedges, where the bound's power of lambda matters
