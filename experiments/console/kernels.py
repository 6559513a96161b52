"""The networks that commands take and their kernels.

A network is FL-NTK's network, a network of any depth, or a network that a user's file defines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from experiments.console.choices import chosen_problem

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float

    from bounds import Options
    from ntkfl import Estimate, Problem, Setup, Trajectory
    from ntkfl.fastest_method import Tuned
    from ntkfl.training.model import Model
    from ntkfl.training.models.wide_networks import WideNetwork

TWO_LAYER, LIMIT = "two-layer", "infinite width"
NETWORK = typer.Option(
    metavar="two-layer|fc:L:PHI|conv:L:PHI|FILE.py",
    help="that of FL-NTK; fully connected or convolutional with L layers of weights, all trained, and activation "
    "PHI (relu, erf, gelu); or the network that a file defines",
)
# the error of an entry of a finite network's kernel, as tests show it, relative to the root of the product of the two
# diagonal entries
RELATIVE = 1e-12


def kernels(spec: str, problem: Problem, setup: Setup, *, finite: bool) -> dict[str, Estimate]:
    """The kernel matrices of a network, by their names in tables; the matrix of infinite width, if any, comes first.

    With `finite` the result includes the matrix of the finite network with the width, sigma and seed of the setup. A
    network in a file has this matrix only.

    Raises:
        ValueError: the network is not understood, or does not fit the data.
    """
    from ntkfl import gram
    from ntkfl.initialisation import draw

    at_width = f"H(0) at width {setup.width}"
    if spec == TWO_LAYER:
        estimates = {LIMIT: gram.infinite_estimate(problem.x)}
        if finite:
            hidden = draw(setup.width, problem.d, setup.seed, setup.sigma).hidden
            estimates[at_width] = gram.finite_estimate(problem.x, hidden)
        return estimates
    model, wide = network_of(spec, problem, setup)
    if wide is None:
        return {f"H(0) of {model.name}": own_kernel(model, problem, setup)}
    estimates = {LIMIT: wide.kernel_estimate(problem.x)}
    return estimates | ({at_width: own_kernel(model, problem, setup)} if finite else {})


def momentum_rounds(problem: Problem, eps: float, gram: Float[np.ndarray, "n n"] | None = None) -> Tuned | None:
    """The best steps of momentum at the server with one local step, in closed form; None if no steps are stable.

    Raises:
        ValueError: as `ntkfl.fastest`.
    """
    from ntkfl import fastest

    best = fastest(problem, gram, local_steps=(1,), eps=eps, methods=("fedavgm",), refine=False).best
    return best[0] if best else None


def rounds_said(tuned: Tuned) -> str:
    """The number of rounds that the tuned steps need, in words."""
    if tuned.rounds is not None:
        return f"{tuned.rounds} rounds"
    return "a residual that does not fall so far" if tuned.estimate is None else f"some {tuned.estimate:.1g} rounds"


def scaled_columns(problem: Problem, eps: float, tuned: Tuned) -> str:
    """A remark if training on columns of equal spread would need less than half the rounds of `tuned`.

    Otherwise the text is empty.
    """
    import numpy as np

    from ntkfl.gram import ParallelRows

    needed = tuned.rounds or tuned.estimate or float("inf")
    try:
        scaled = momentum_rounds(problem.standardised(), eps)
    except (ParallelRows, ValueError):  # rows are parallel after scaling
        return ""
    if scaled is None or scaled.rounds is None or not 2 * scaled.rounds < needed:
        return ""
    spread = problem.x.std(axis=0)[np.ptp(problem.x, axis=0) > 0]
    return (
        f"the columns that vary have standard deviations from {spread.min():.3g} to {spread.max():.3g}; with each "
        f"scaled to mean 0 and standard deviation 1, fedavgm takes {scaled.rounds} rounds at one local step"
    )


def problem_and_gram(
    options: Options, spec: str, samples: int, duplicates: str, first: Callable[[Problem], None] | None = None
) -> tuple[Problem, Float[np.ndarray, "n n"] | None]:
    """The data (default: digits) and the network's kernel matrix, which is None for FL-NTK's network.

    `first` is called before rows are compared, and raises if the data are too large.

    Raises:
        ValueError, OSError: as `chosen_problem` and `kernels`.
    """
    problem = chosen_problem(
        options, "digits", samples, first=first, condition=condition_of(spec), duplicates=duplicates
    )
    if spec == TWO_LAYER:
        return problem, None
    matrices = kernels(spec, problem, options.setup(seed=options.seed), finite=False)
    return of_their_outputs(problem, matrices), next(iter(matrices.values())).value


def network_of(
    spec: str, problem: Problem, setup: Setup, known: tuple[str, ...] = (TWO_LAYER,)
) -> tuple[Model, WideNetwork | None]:
    """The network of this name for these data at the setup's width, and the same network with its width left open.

    The second is None for a network in a file.

    Raises:
        ValueError: as `kernels`.
    """
    from ntkfl import networks

    wide = wide_of(spec, known)
    if wide is None:
        model = networks.from_file(spec)
        if model.remark:
            typer.echo(f"{model.name}: {model.remark}")
        return model, None
    outputs = problem.y.shape[1] if problem.y.ndim > 1 else None
    return wide.model(problem.x.shape[1:], setup.width, outputs), wide


def wide_of(spec: str, known: tuple[str, ...] = (TWO_LAYER,)) -> WideNetwork | None:
    """The network of this name, with a depth but no fixed width; None for a network in a file.

    Raises:
        ValueError: there is no such network.
    """
    from ntkfl import networks
    from ntkfl.extensions import is_file

    if is_file(spec):
        return None
    if spec.partition(":")[0] not in ("fc", "conv"):
        forms = "".join(f"{name}, " for name in known) + "of a form like fc:3:relu or conv:3:erf"
        raise ValueError(f"there is no network {spec!r}; it must be {forms}{', or the path of a file' * bool(known)}")
    return networks.wide(spec)


def condition_of(spec: str, known: tuple[str, ...] = (TWO_LAYER,)) -> Callable[[np.ndarray], None]:
    """A function that raises if rows make this network's kernel singular.

    For FL-NTK's network this is `gram.require_positive`.

    Raises:
        ValueError: as `wide_of`.
    """
    from ntkfl import gram

    if spec in known:
        return gram.require_positive
    wide = wide_of(spec, known)
    return gram.require_distinct if wide is None else wide.require_positive


def of_their_outputs(problem: Problem, matrices: Mapping[str, Estimate]) -> Problem:
    """The data in the form that these kernels need.

    If the network has several outputs, this is the form that `Problem.per_output` gives.

    Raises:
        ValueError: the labels have another number of columns than the network has outputs.
    """
    outputs = max(len(h.value) for h in matrices.values()) // problem.n
    columns = problem.y[0].size
    if outputs > 1 and columns != outputs:
        raise ValueError(
            f"the network has {outputs} outputs, and the labels of {problem.name} have {columns} a sample: give "
            f"y of {outputs} columns, one-hot for classes, in a .npz file, or a network that ends in {columns}"
        )
    return problem.per_output() if outputs > 1 else problem


def own_kernel(model: Model, problem: Problem, setup: Setup) -> Estimate:
    """The kernel J J^T of a network at its start, (n C, n C), where C is the number of outputs."""
    import numpy as np

    from ntkfl import Estimate, gram

    value = gram.empirical(problem.x, model, model.initial(setup.seed))
    size = np.sqrt(np.outer(value.diagonal(), value.diagonal()))
    return Estimate(value, RELATIVE * size, "float64, tested to 1e-12")


def exact_run(problem: Problem, setup: Setup, matrix: np.ndarray, outputs: np.ndarray) -> Trajectory:
    """Algorithm 1 in the kernel regime of this matrix, from these outputs of the network before training.

    The outputs of the result have the shape of the labels.
    """
    from ntkfl.limit.infinite_width import algorithm1_limit

    if len(matrix) == problem.n:
        return algorithm1_limit(problem, setup, matrix).trajectory(outputs)
    run = algorithm1_limit(problem.per_output(), setup, matrix).trajectory(outputs.ravel())
    return replace(run, outputs=run.outputs.reshape(len(run.outputs), *problem.y.shape))
