"""The ranking of tuned methods on a network of finite width.

Each method trains the network, and the rounds that it needs are counted.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ntkfl.exact_dynamics import of_method
from ntkfl.fastest_method import MOST_ROUNDS, Fastest, Tuned
from ntkfl.gram import finite
from ntkfl.imports import old_names
from ntkfl.initialisation import draw
from ntkfl.limit.infinite_width import algorithm1_limit
from ntkfl.limit.linear_regime import LinearRegime
from ntkfl.memory import require
from ntkfl.messages import refusing, require_size
from ntkfl.problem import Problem, Setup, Weights

PATIENCE = 3  # training ends after this many times the predicted number of rounds
# the names that fields of `Trained` have in files, where they differ from the fields' own
IN_FILES = {"output_distance": "off", "rounds_run": "ran", "residual_left": "left"}
DIVERGED = 1e6  # training ends if the residual exceeds this many times the first residual


@refusing({old: f"it is {new}" for new, old in IN_FILES.items()})
@dataclass(frozen=True)
class Trained:
    """The result of a tuned method on one network.

    Args:
        label: the method's name, as in `Tuned`.
        predicted: the number of rounds at infinite width until the residual is eps times the network's first residual.
        linearised: the same number in the kernel regime of the network's H(0); None if the residual never falls so far.
        trained: the same number for the trained network; None if 3 `predicted` rounds do not suffice, or if training
            diverges.
        rounds_run: the number of rounds of the training.
        residual_left: the share of the network's first residual that was left at the end.
        output_distance: max_t |y_m(t) - y_inf(t)| / |r(0)|, the largest distance of the network's outputs y_m from the
            outputs at infinite width, y_inf. The maximum is over the rounds t that were run or, if training diverged,
            over the rounds before it diverged.
    """

    label: str
    predicted: int
    linearised: int | None
    trained: int | None
    output_distance: float
    rounds_run: int
    residual_left: float

    def to_dict(self) -> dict[str, Any]:
        """All fields, under the names that they have in files."""
        return {IN_FILES.get(name, name): value for name, value in asdict(self).items()}


def train_fastest(
    problem: Problem,
    fastest: Fastest,
    width: int,
    seed: int = 0,
    progress: Callable[[str], None] = lambda label: None,
) -> tuple[Trained, ...]:
    """Train a two-layer network with the best tuned steps of each method, and count the rounds.

    All methods start from the same network, and predictions start from its outputs. Methods that are not predicted to
    reach eps are left out; the others come in the order of `fastest.best`.

    Args:
        problem: the data on which the methods were compared.
        fastest: the result of `fastest`.
        width: number of hidden neurons.
        seed: the seed of the network; default 0.
        progress: a function that is called when a training begins, with a text that names the method and the predicted
            number of rounds; default: none.

    Raises:
        ValueError: a width below 1; labels of several outputs, which the network does not have; as `kernel_regime`.
        TooLittleMemory: the clients' networks do not fit.
    """
    require_size("the width", width)
    if problem.y.ndim > 1:
        raise ValueError(f"the labels have shape {problem.y.shape}; the network has one output, so give one label each")
    require("training", lambda width: _bytes(problem, width), width=width)
    weights = draw(width, problem.d, seed)
    limits = algorithm1_limit(problem, Setup())
    frozen = algorithm1_limit(problem, Setup(), finite(problem.x, weights.hidden))
    start, rows = weights.outputs(problem.x), []
    for tuned in fastest.best:
        steps = Setup(eta_local=tuned.eta_local, local_steps=tuned.local_steps)
        regime, own = (of_method(base.at(steps), tuned.method, tuned.options) for base in (limits, frozen))
        predicted, linearised = (_rounds(dynamics, fastest.eps, start) for dynamics in (regime, own))
        if predicted is not None:
            progress(f"{tuned.label}, {predicted} rounds predicted")
            measured = _trained(problem, weights, tuned, regime, PATIENCE * predicted, fastest.eps)
            rows.append(Trained(tuned.label, predicted, linearised, *measured))
    return tuple(rows)


def reversed_pairs(rows: Sequence[Trained]) -> tuple[tuple[Trained, Trained], ...]:
    """Pairs of methods whose order is reversed by training.

    The first method of a pair is predicted to need fewer rounds than the second, but needs more.

    Args:
        rows: the prediction and the training of each method.
    """
    never = float("inf")
    ordered = sorted(rows, key=lambda row: row.predicted)
    return tuple(
        (first, other)
        for first, other in combinations(ordered, 2)
        if first.predicted < other.predicted
        and (never if first.trained is None else first.trained) > (never if other.trained is None else other.trained)
    )


def _rounds(regime: LinearRegime, eps: float, start: np.ndarray) -> int | None:
    with suppress(ValueError):  # the residual never falls so far, or needs too many rounds
        return regime.rounds_to(eps, start, at_most=MOST_ROUNDS)
    return None


def _trained(
    problem: Problem, weights: Weights, tuned: Tuned, regime: LinearRegime, most: int, eps: float
) -> tuple[int | None, float, int, float]:
    """Four numbers of a training run.

    The numbers are the network's rounds to eps (None if eps is not reached), the largest distance of the network's
    outputs from the outputs at infinite width, the number of rounds that were run, and the residual that is left.
    """
    from ntkfl.training.methods import build  # imported here because torch loads slowly
    from ntkfl.training.objectives import HalfSquares
    from ntkfl.training.wide_training import wide_federation

    method = build(tuned.method, HalfSquares("sum"), **tuned.options)
    run = wide_federation(problem, regime.setup, weights, method=method)
    residuals, share = [], float("inf")
    with suppress(FloatingPointError):  # steps that are stable at infinite width may be unstable for a finite network
        for state in run.states():
            residuals.append(problem.y - run.model.outputs(state.model, run.data.x).numpy())
            with np.errstate(over="ignore", invalid="ignore"):
                share = float(np.linalg.norm(residuals[-1]) / np.linalg.norm(residuals[0]))
            if not share < DIVERGED:
                residuals.pop()
                break
            if share <= eps or len(residuals) > most:
                break
    at_infinite_width = regime.residual(np.arange(len(residuals)), problem.y - residuals[0])
    distance = np.linalg.norm(residuals - at_infinite_width, axis=1).max() / np.linalg.norm(residuals[0])
    left = float(np.linalg.norm(residuals[-1]) / np.linalg.norm(residuals[0]))
    return len(residuals) - 1 if share <= eps else None, float(distance), len(residuals) - 1, left


def _bytes(problem: Problem, width: int) -> float:
    """Bytes of the clients' networks with all arrays of a step, and of their pre-activations."""
    padded = problem.n_clients * int(np.bincount(problem.owner).max())
    return 8 * width * (problem.d * (12 + 10 * problem.n_clients) + 6 * padded)


__getattr__ = old_names(__name__, partings="reversed_pairs")
