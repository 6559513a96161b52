"""Hypotheses that several statements on deep networks share."""

from bounds import Hypothesis, Limit

SEVERAL_CLIENTS = Hypothesis(
    "several-clients",
    "N >= 2: a single client is its own mean, and descends on all the data",
    Limit("N", lambda case: case.problem.n_clients, at_least=2.0),
    free=True,
)
SEVERAL_STEPS = Hypothesis(
    "several-local-steps",
    "K >= 2: one local step of every client is one step on all the data",
    Limit("K", lambda case: case.setup.local_steps, at_least=2.0),
    free=True,
)
