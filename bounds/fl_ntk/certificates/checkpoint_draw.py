"""Runs of Algorithm 1 from a checkpoint, the cases of the certificates fl-ntk/X.11 and fl-ntk/X.12."""

from dataclasses import replace

from bounds import Family, Options
from bounds.federated_run import FederatedFamily, FederatedRun, federated_families, federated_run, federated_runs
from ntkfl import Problem, Setup, Weights, simulate
from ntkfl.initialisation import draw

TRAINED = 300  # number of rounds before the checkpoint


def _trained(base: FederatedFamily, seed: int) -> FederatedRun:
    """A run of another family that starts from the weights after 300 rounds. These weights are taken as exact."""
    return from_checkpoint(base.problem(seed), replace(base.setup, seed=seed), TRAINED)


def _checkpoints(base: FederatedFamily) -> Family:
    """The runs of another family from a checkpoint.

    The counterexample search draws any small run, since a network whose labels are near its outputs is like a
    checkpoint.
    """
    small = federated_runs(n=(1, 4), width=(1, 512))
    return Family(f"{base.name}, after {TRAINED} rounds", _trained, small, (base,), base.trials, needs=5)


def from_checkpoint(problem: Problem, setup: Setup, trained: int) -> FederatedRun:
    """The run of this setup from a checkpoint, which is made by training the seed's weights for `trained` rounds."""
    weights = draw(setup.width, problem.d, setup.seed, setup.sigma)
    if trained:
        run = simulate(problem, replace(setup, rounds=trained), weights, keep=[trained], movements=False)
        weights = Weights(run.weights[trained], weights.signs)
    return federated_run(problem, setup, weights)


def checkpoint_families(options: Options) -> tuple[Family, ...]:
    """Digits (n=8, three clients of unequal sizes) or the user's data, at a checkpoint of networks of width 1000.

    The checkpoint is after 300 rounds at eta_l = .1.
    """
    if options.data is not None:
        families = federated_families(options, label="eta_l=.1", movements=True, width=1000, eta_local=0.1, rounds=40)
        return tuple(map(_checkpoints, families))
    family = FederatedFamily(
        name="digits",
        setup=options.setup(width=1000, eta_local=0.1, rounds=40),
        clients=options.clients or 3,
        partition=options.partition or "iid",
        n=options.n or 8,
        trials=options.trials or 9,
    )
    return (_checkpoints(family),)
