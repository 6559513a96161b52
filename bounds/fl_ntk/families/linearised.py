"""Draws of networks linearised in their weights."""

from bounds.federated_run import federated_families


def linearised_families(options) -> tuple:
    """Networks linearised in their weights, trained in parameter space; fewer, their rounds are many columns each."""
    return federated_families(options, label="linearised", linearised=True, movements=True, rounds=40)
