"""Families of ensembles: clients around a shared random initialisation, on random data or the user's data."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from hypothesis.strategies import DrawFn

from bounds.cases.ensembles import Ensemble
from bounds.family import Family
from bounds.federated_run import federated_families
from bounds.options import Options
from bounds.strategies import problems
from ntkfl import data
from ntkfl.problem import Problem

DRAWS, HIDDEN, TRIALS = 8, 4, 40  # M, h, and seeds of a family
MOST = 64  # most samples of the user's data: every output is a ball, which is slow
WIDE, CLOSE = 0.5, 2e-5  # how far clients move from the initialisation, in units of its entries


def _ensemble(options: Options, amplitude: float, equal: bool, seed: int) -> Ensemble:
    """M draws of a Gaussian initialisation; a client adds one move to all draws, and another to each draw."""
    problem, rng = inputs(options, seed, equal=equal), np.random.default_rng([seed, 5])

    def entries(*shape: int) -> np.ndarray:
        shared = rng.standard_normal((shape[0], 1, *shape[2:]))
        moves = rng.standard_normal((1, *shape[1:])) + rng.standard_normal(shape)
        return shared + amplitude * moves

    sizes = DRAWS, problem.n_clients, HIDDEN
    return Ensemble(problem, entries(*sizes, problem.d), entries(*sizes))


def ensemble_families(options: Options, *, amplitude: float = WIDE, equal: bool = False) -> tuple[Family, ...]:
    """One family: clients around a shared initialisation, far apart or close together."""
    data_name = "sphere" if options.data is None else f"{options.data} (at most {MOST} samples)"
    name = f"{data_name}, clients around a shared start, moves of {amplitude:g}" + (", equal sizes" if equal else "")
    return (Family(name, _ensemble, SMALL_ENSEMBLES, (options, amplitude, equal), options.trials or TRIALS),)


def inputs(options: Options, seed: int, *, equal: bool) -> Problem:
    """Data for a few networks in balls, at most MOST samples; random clients have unequal sizes unless `equal`."""
    rng = np.random.default_rng([seed, 6])
    if options.data is not None:
        given = federated_families(options)[0].problem(seed)
        return _kept(given, rng, equal)
    clients = int(rng.integers(2, 5))
    drawn = data.sphere(3 * clients, 3, seed=seed, labels="uniform", clients=clients)
    if equal:
        return drawn
    owner = np.concatenate([np.arange(clients), np.minimum(rng.geometric(0.4, 2 * clients) - 1, clients - 1)])
    return Problem(drawn.x, drawn.y, owner, name=f"{drawn.name}, unequal clients")


def _kept(problem: Problem, rng: np.random.Generator, equal: bool) -> Problem:
    """At most MOST samples: every client keeps the same fraction, or with `equal` the same number."""
    rows = problem.members
    counts = [len(row) for row in rows]
    if equal:
        counts = [max(1, min(*counts, MOST // len(rows)))] * len(rows)
    else:
        counts = [max(1, count * MOST // max(MOST, problem.n)) for count in counts]
    keep = np.sort(np.concatenate([rng.permutation(row)[:count] for row, count in zip(rows, counts, strict=True)]))
    return Problem(problem.x[keep], problem.y[keep], problem.owner[keep], name=problem.name)


@st.composite
def _small_ensembles(draw: DrawFn) -> Ensemble:
    """One to four draws of up to four clients; weights are small integers, or any numbers up to 3."""
    problem = draw(problems(clients=(1, 4)))
    shape = (draw(st.integers(1, 4)), problem.n_clients, draw(st.integers(1, 2)), problem.d)
    entries = draw(st.sampled_from([st.integers(-3, 3).map(float), st.floats(-3, 3, allow_subnormal=False)]))
    hidden, readout = (draw(arrays(float, size, elements=entries)) for size in (shape, shape[:3]))
    return Ensemble(problem, hidden, readout)


SMALL_ENSEMBLES = _small_ensembles()
