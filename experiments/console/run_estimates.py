"""The loss of random rounds, estimated by independent runs: the output of `ntkfl rate --runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy import ndarray

    from ntkfl.limit.sampled_rounds import SampledRounds
    from ntkfl.problem import Problem, Setup

SHOWN = 6  # rounds, at most


def print_estimates(
    problem: Problem,
    setup: Setup,
    gram: Float[ndarray, "n n"] | None,
    method: str,
    options: dict[str, Any],
    said: str,
    *,
    rounds: int,
    runs: int,
    seed: int,
    **drawn: Any,
) -> None:
    """Print the mean of the loss and its spread over runs, after some rounds up to the last."""
    import numpy as np

    from experiments.console.tables import as_lines
    from ntkfl import sampled_rounds
    from verification.tables import plain_table

    shown = sorted({int(t) for t in np.geomspace(1, rounds, SHOWN).round()})
    sampled = sampled_rounds(problem, setup, shown, gram, method, options, runs=runs, seed=seed, **drawn)
    mean, error = _losses(sampled, problem.n)
    typer.echo(
        f"expected after {rounds} rounds: a mean square error of {mean[-1]:.4g} ± {error[-1]:.1g}, three standard "
        f"errors of {runs} runs\n  setting: {said}\n"
    )
    columns = ["rounds", "mean square error", "±", "its deviation from run to run"]
    table = plain_table(columns, numbers=columns, wrapped=columns)
    spread = np.sqrt(np.maximum(sampled.square_variance.value, 0)) / problem.n
    for t, *cells in zip(shown, mean, error, spread, strict=True):
        table.add_row(str(t), f"{cells[0]:.6g}", *(f"{value:.2g}" for value in cells[1:]))
    typer.echo(as_lines(table))


def _losses(sampled: SampledRounds, n: int) -> tuple[ndarray, ndarray]:
    """The mean square error, and its error."""
    return sampled.mean_square.value / n, sampled.mean_square.error / n
