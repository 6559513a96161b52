"""Trained transitivity: does a low loss on the way to an anchor predict a low barrier between two trained models?

Theorem 3.5 of FedGuCci is about networks that are drawn near an anchor, with losses below epsilon on the segment to it.
Here each network is trained from its own start, with beta times the connectivity loss to a trained anchor. epsilon, the
barrier and the theorem's left side are computed exactly.
"""

from collections.abc import Iterable

import numpy as np
from scipy import stats

from bounds import Kind
from bounds.cases.cube_networks import CubeNetworks
from bounds.cases.network_pair import NetworkPair
from bounds.fedgucci.premises.cube_symbols import AT_TRUE_SIDE
from bounds.fedgucci.premises.cube_terms import barrier, cube_constants, gap
from bounds.formula import evaluate
from bounds.ladders.slopes import LEVEL
from experiments.studies.answers import errors, half_width, joined, untested, upper
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.random_seed import own_seed
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Numbers, Point, Quantity, Study, seeds
from ntkfl import Estimate, Problem, data
from ntkfl.connectivity import ABSOLUTE, TwoLayer
from ntkfl.connectivity.barrier import largest_loss
from verification.compare import compare

N_SAMPLES, RATE, DELTA = 40, 0.5, 0.1
ALPHA, SHARES = (part / 2 for part in np.polynomial.legendre.leggauss(3))
ALPHA = ALPHA + 0.5
FEWEST_UNITS, FEWEST_IN_ONE = 3, 3
SOURCE = "FedGuCci, Theorem 3.5, section 3.2"
BEYOND_F9 = "no theorem: the right side of fedgucci/F9, for networks that it does not cover"
GROUPS = {
    "all pairs of one seed": (SEED,),
    "over beta, all else equal": ("width", "steps", SEED),
    "over the length of training, all else equal": ("width", "beta", SEED),
    "over seeds, all else equal": ("width", "beta", "steps"),
}


def measure(point: Point) -> Measured:
    """The barriers, losses and bounds of two networks trained with the connectivity loss to their anchor."""
    width, passes = point["width"], point["steps"]
    problem = data.digits(n=N_SAMPLES, seed=point[SEED])
    starts = [drawn(width, problem.d, own_seed(point[SEED], width, number, bits=32)) for number in range(3)]
    anchor = trained(problem, starts[0], passes)
    first, second = (trained(problem, start, passes, point["beta"], anchor) for start in starts[1:])
    far = max(float(np.abs(net.vector() - anchor.vector()).max()) for net in (first, second))
    case = CubeNetworks(anchor, (first, second), 2 * far * (1 + 1e-12), problem.x, problem.y, DELTA)
    ways = [largest_loss(net, anchor, problem.x, problem.y, ABSOLUTE.name).value for net in (first, second)]
    pair = NetworkPair(first, second, problem.x, problem.y, ABSOLUTE.name)
    return {
        "epsilon": max(ways, key=lambda way: float(way.value)),
        "barrier": barrier(case),
        "gap": gap(case),
        "loss": max(float(np.abs(net.outputs(problem.x) - problem.y).mean()) for net in (first, second)),
        "data_bound": float(pair.bilinear_term.value / 4 + pair.kink_term.value),
        "theorem": float(evaluate(AT_TRUE_SIDE, cube_constants(case)).value),
    }


def drawn(width: int, features: int, seed: int) -> TwoLayer:
    """A network with normal weights, of variance 2/features in the first layer and 1/width in the second."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((width, features)) * np.sqrt(2 / features)
    return TwoLayer(hidden, rng.standard_normal(width) / np.sqrt(width))


def trained(
    problem: Problem, start: TwoLayer, steps: int, beta: float = 0.0, anchor: TwoLayer | None = None
) -> TwoLayer:
    """The network after gradient descent of both layers.

    The loss is half the mean square, plus beta times the integral of this loss along the segment to the anchor.
    """
    hidden, readout = start.hidden, start.readout
    for _ in range(steps):
        of_hidden, of_readout = _gradient(problem, hidden, readout)
        if beta and anchor is not None:
            for alpha, share in zip(ALPHA, SHARES, strict=True):
                between = (alpha * hidden + (1 - alpha) * anchor.hidden, alpha * readout + (1 - alpha) * anchor.readout)
                pulls = _gradient(problem, *between)
                of_hidden = of_hidden + beta * share * alpha * pulls[0]
                of_readout = of_readout + beta * share * alpha * pulls[1]
        hidden, readout = hidden - RATE * of_hidden, readout - RATE * of_readout
    return TwoLayer(hidden, readout)


def _gradient(problem: Problem, hidden: np.ndarray, readout: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    before = problem.x @ hidden.T
    after = np.maximum(before, 0)
    residual = (after @ readout - problem.y) / len(problem.y)
    return ((before >= 0) * residual[:, None] * readout).T @ problem.x, residual @ after


def summarise(cells: Cells) -> Iterable[Answer]:
    """Answers about rank correlations of epsilon with the barrier, and then answers about bounds.

    There is a rank correlation for each of GROUPS, which says what is equal within a group of networks.
    """
    for what, fixed in GROUPS.items():
        yield rank_correlation(cells, fixed, what)
    unsure = errors(cells, "gap")
    claim = "barrier of the absolute loss <= sup over alpha of E_x |z_x(alpha)|"
    yield upper(claim, "fedgucci/F9, Eq (36)", cells.barrier, cells.gap, errors(cells, "barrier"), unsure)
    claim = "sup over alpha of E_x |z_x(alpha)| <= R2, from one pass over the data"
    yield upper(claim, "fedgucci/R2", cells.gap, cells.data_bound, unsure)
    claim = "sup over alpha of E_x |z_x(alpha)| <= Theorem 3.5 at the side of the cube that holds the networks"
    note = "trained networks are not drawn from the cube: a violation would not be one of Theorem 3.5"
    yield upper(claim, BEYOND_F9, cells.gap, cells.theorem, unsure, note=note)


def rank_correlation(cells: Cells, fixed: tuple[str, ...], what: str) -> Answer:
    """The answer whether Spearman's correlation of epsilon with the barrier is positive in the mean.

    The correlation is computed in groups of cells with equal values on the axes `fixed`.

    The interval of the mean is Student's interval over the seeds, and each seed is represented by the mean of its
    groups. If a group has several seeds, the interval is over the groups, as if these were independent. A group is left
    out if epsilon or the barrier does not vary in it.
    """
    claim = f"a lower largest loss on the way to the anchor goes with a lower barrier: rank correlation, {what}"
    epsilon, wall = (_grouped(quantity, fixed) for quantity in (cells.epsilon, cells.barrier))
    correlations = np.array([_spearman(*pair) for pair in zip(epsilon, wall, strict=True)])
    units = correlations.reshape(-1, cells.sizes[SEED]) if SEED in fixed else correlations[None]
    values = np.array([unit[np.isfinite(unit)].mean() for unit in units.T if np.isfinite(unit).any()])
    if len(values) < FEWEST_UNITS:
        return untested(claim, SOURCE, None, f"{len(values)} seeds or groups; {FEWEST_UNITS} are needed")
    measured = Estimate(float(values.mean()), half_width(values, LEVEL), f"Student's interval, {LEVEL:.0%}")
    outcome = compare(Kind.UPPER, Estimate.exact(0.0), measured).outcome
    population = "seeds" if SEED in fixed else "settings, which share their images"
    share = (correlations[np.isfinite(correlations)] > 0).mean()
    note = joined(f"interval over {len(values)} {population}", f"positive in {share:.0%} of the groups")
    return Answer(claim, SOURCE, None, measured, outcome, note)


def _grouped(values: Numbers, fixed: tuple[str, ...]) -> np.ndarray:
    """The values as a matrix with a row for each group."""
    ordered = values.transpose(*fixed, ...)
    groups = int(np.prod([ordered.sizes[name] for name in fixed]))
    return ordered.to_numpy().reshape(groups, -1)


def _spearman(first: np.ndarray, other: np.ndarray) -> float:
    """The rank correlation over cells that have both numbers; NaN if there are few, or if one number does not vary."""
    there = np.isfinite(first) & np.isfinite(other)
    first, other = first[there], other[there]
    if len(first) < FEWEST_IN_ONE or np.ptp(first) == 0 or np.ptp(other) == 0:
        return np.nan
    return float(stats.spearmanr(first, other).statistic)


def charts(cells: Cells) -> Iterable[Chart]:
    """The barrier against epsilon for every pair of networks, with a panel for each width."""
    panels = []
    for width in cells.width.to_numpy():
        at = cells.sel(width=width)
        series = tuple(_scatter(f"beta {float(beta):g}", at.sel(beta=beta)) for beta in cells.beta.to_numpy())
        x, y = Label("epsilon: largest loss on the way to the anchor"), Label("barrier between the two")
        panels.append(Panel(f"width {int(width)}", x, y, series))
    yield Chart(
        "trained-transitivity",
        f"Barrier of the absolute loss between two trained networks against the largest loss on their ways to the "
        f"anchor, both exact; digits, n = {N_SAMPLES}, rate {RATE:g}; all lengths of training; {cells.sizes[SEED]} "
        "seeds.",
        "Barrier against epsilon: a point for each pair, a panel for each width.",
        tuple(panels),
    )


def _scatter(name: str, cells: Cells) -> Series:
    """A series with a point for each pair of networks, sorted by epsilon."""
    x, y = (np.ravel(quantity.to_numpy()) for quantity in (cells.epsilon, cells.barrier))
    order = np.argsort(x)
    return Series(name, "measured", x[order].tolist(), y[order].tolist())


STUDY = Study(
    name="trained-transitivity",
    question="Does a low loss on the way to the anchor predict a low barrier between two trained models?",
    source=SOURCE,
    axes=(
        Axis("width", (8, 32, 128), "hidden units", least=1),
        Axis("beta", (0.0, 0.1, 1.0, 3.0), "weight of the connectivity loss", least=0),
        Axis("steps", (100, 400, 1600), "steps of gradient descent", least=1),
        seeds(6, "of images and networks"),
    ),
    quantities=(
        Quantity("epsilon", "largest loss on the ways of the two networks to the anchor"),
        Quantity("barrier", "barrier of the absolute loss between the two networks"),
        Quantity("gap", "sup over alpha of E_x |z_x(alpha)| between the two networks"),
        Quantity("loss", "mean absolute loss of the worse of the two networks"),
        Quantity("data_bound", "right side of R2"),
        Quantity("theorem", "right side of Theorem 3.5 at the side of the cube that holds both"),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.1 + 2e-5 * point["steps"] * (20 + point["width"]),
    megabytes=lambda point: 350,
)
