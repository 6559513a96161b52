"""Private width: does the loss of wide networks under a privacy budget differ from what the kernel regime expects?

The step sizes and the noise are the best ones that `ntkfl.privacy` finds for a privacy budget and 20 rounds. A cell is
one two-layer network, trained with this noise and with actual clipping. The kernel regime describes a model that is
linear in its weights. Since the noise has the same size on every weight, it turns neurons on and off in networks of
every width. So a larger width does not make the model linear. If the initial weights are multiplied by a large factor,
the model comes closer to a linear model, and the kernel stays the same. The outputs before training are added to the
labels, so that training and expectation start with the same residual.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from bounds import Outcome
from bounds.ladders.slopes import LEVEL
from experiments.studies.answers import FEWEST_COMPARED, at_most, half_width, interval, untested
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.random_seed import own_seed
from experiments.studies.series import STUDENT_BARS, WIDTHS, mean
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from ntkfl import Estimate, Problem, data
from ntkfl.initialisation import draw
from ntkfl.privacy import Plan, private_settings

SAMPLES, ROUNDS, DELTA, LOCAL_STEPS = 40, 20, 0.01, (1, 5)  # as many clients as samples, with one sample each
SOURCE = "docs/proofs/random_rounds.md#noise-turns-neurons"


class Training(NamedTuple):
    """The best private training for a budget, and its expected loss by round."""

    plan: Plan
    eta_local: float
    local_steps: int
    server_rate: float
    expected: np.ndarray


@cache
def problem() -> Problem:
    """The data of every cell, in which each client has one sample."""
    return data.digits(SAMPLES, clients=SAMPLES)


@cache
def training(epsilon: float) -> Training:
    """The training with the least expected loss after all rounds."""
    settings = private_settings(problem(), local_steps=LOCAL_STEPS, rounds=ROUNDS)
    plans = [(setting.plan(epsilon, DELTA, ROUNDS), setting) for setting in settings]
    plan, best = min(plans, key=lambda pair: pair[0].mean_square)
    setup, rate = best.regime.setup, best.regime.mean.round.server_rate
    assert rate is not None
    return Training(plan, setup.eta_local, setup.local_steps, rate, best.square + plan.noise**2 * best.gain)


def measure(point: Point) -> Measured:
    """The loss of one trained network by round, its expectation, and the number of updates that were clipped."""
    given, at, factor, width = problem(), training(point["epsilon"]), point["initial"], point["width"]
    seed = own_seed(point[SEED], width, STUDY.name)
    weights, signs = draw(width, given.d, seed)
    rng, losses, clipped = np.random.default_rng(seed), [], 0
    hidden, readout = factor * weights, signs / width**0.5
    labels = given.y + np.maximum(given.x @ hidden.T, 0) @ readout
    for now in range(ROUNDS + 1):
        before = given.x @ hidden.T
        losses.append(float(((labels - np.maximum(before, 0) @ readout) ** 2).mean()))
        if now == ROUNDS:
            break
        moves = np.zeros_like(before)  # client c moves the weights of neuron r by moves[c, r] times its sample
        for _ in range(at.local_steps):
            here = before + moves
            left = labels - np.maximum(here, 0) @ readout
            moves += at.eta_local * left[:, None] * (here >= 0) * readout
        lengths = np.linalg.norm(moves, axis=1)
        clipped += int((lengths > at.plan.clip).sum())
        moves *= np.minimum(1, at.plan.clip / lengths)[:, None]
        noise = at.plan.noise * rng.standard_normal(hidden.shape)
        hidden = hidden + at.server_rate * (moves.T @ given.x / SAMPLES + noise)
    turned = np.arctan(at.server_rate * at.plan.noise * ROUNDS**0.5 / factor) / np.pi
    return {"loss": losses, "expected": at.expected.tolist(), "turned": float(turned), "clipped": float(clipped)}


def _ratios(cells: Cells, epsilon: float, initial: float) -> list[np.ndarray]:
    """The losses of trained networks divided by the expected loss after the last round, (seeds,) for every width."""
    own = cells.sel(epsilon=epsilon, initial=initial, round=ROUNDS)
    ratio = (own["loss"] / own["expected"]).transpose("width", SEED).to_numpy()
    return [row[~np.isnan(row)] for row in ratio]


def summarise(cells: Cells) -> Iterable[Answer]:
    """For each budget, answers about loss / expectation, and an answer about the scale of the initial weights.

    There is one answer about loss / expectation for each scale. The last answer says whether a larger scale leaves a
    smaller loss.
    """
    factors = cells.initial.to_numpy().tolist()
    for epsilon in cells.epsilon.to_numpy().tolist():
        for factor in factors:
            yield _at_the_largest_width(cells, epsilon, factor)
        small, large = (_ratios(cells, epsilon, factor)[-1] for factor in (min(factors), max(factors)))
        claim = (
            f"epsilon {epsilon:g}: larger initial weights leave a smaller loss (logarithm of the ratio of the losses)"
        )
        if min(len(small), len(large)) < FEWEST_COMPARED or len(small) != len(large):
            yield untested(claim, SOURCE, 0.0, f"{FEWEST_COMPARED} seeds of both sizes of weights are needed")
            continue
        change = np.log(large) - np.log(small)
        difference = Estimate(float(change.mean()), half_width(change, LEVEL), f"Student, {LEVEL:.0%}")
        yield at_most(claim, SOURCE, difference, 0.0, f"initial weights {max(factors):g} against {min(factors):g}")


def _at_the_largest_width(cells: Cells, epsilon: float, factor: float) -> Answer:
    widths, ratios = cells.width.to_numpy(), _ratios(cells, epsilon, factor)
    own = cells.sel(epsilon=epsilon, initial=factor)
    claim = f"epsilon {epsilon:g}, initial weights times {factor:g}: loss over its expectation at width {widths[-1]}"
    if len(ratios[-1]) < FEWEST_COMPARED:
        return untested(claim, SOURCE, 1.0, f"{FEWEST_COMPARED} seeds are needed")
    half = half_width(ratios[-1], LEVEL)
    measured = Estimate(float(ratios[-1].mean()), half, f"Student, {LEVEL:.0%}")
    of_widths = ", ".join(f"{ratio.mean():.3g} at {width}" for ratio, width in zip(ratios, widths, strict=True))
    turned = float(own["turned"].mean())
    lost = f"neurons that noise turns on or off lose {turned:.1%} of a sample's signal"
    note = f"{of_widths}; {lost}; {int(own['clipped'].sum())} updates clipped"
    answer = interval(claim, SOURCE, 1.0, measured, note)
    if answer.outcome is Outcome.VIOLATED:  # wider networks may agree, since the expectation is for infinite width
        return replace(answer, outcome=Outcome.UNRESOLVED, settled_by=("width",))
    return answer


def charts(cells: Cells) -> Iterable[Chart]:
    """The ratio of trained and expected loss against the width, with a panel for each budget."""
    widths, panels = [float(width) for width in cells.width.to_numpy()], []
    for epsilon in cells.epsilon.to_numpy().tolist():
        series = [Series("as expected", "theory", widths, [1.0] * len(widths))]
        for factor in cells.initial.to_numpy().tolist():
            columns = mean(_ratios(cells, epsilon, factor))
            series.append(Series(f"initial weights times {factor:g}", "measured", widths, *columns))
        panels.append(Panel(f"epsilon {epsilon:g}", WIDTHS, Label("loss over expected loss"), tuple(series)))
    yield Chart(
        "private-width",
        f"Losses of private networks after {ROUNDS} rounds over what the kernel regime expects: digits, {SAMPLES} "
        f"clients of one sample, delta = {DELTA:g}; {cells.sizes[SEED]} seeds; {STUDENT_BARS}.",
        "With large initial weights the ratio tends to 1; with weights of size 1 noise turns neurons, at every width.",
        tuple(panels),
    )


STUDY = Study(
    name="private-width",
    question="Do wide networks under a privacy budget leave the loss that the kernel regime expects?",
    source=SOURCE,
    axes=(
        Axis("width", (1024, 4096, 16384), "width m", option="widths", least=1),
        Axis("epsilon", (30.0, 300.0), f"the budget's epsilon, at delta = {DELTA:g}", option="epsilons", above=0.0),
        Axis("initial", (1.0, 30.0), "factor on the initial weights", above=0.0),
        seeds(12, "of initial weights and noise"),
    ),
    inner=(Axis("round", tuple(range(ROUNDS + 1)), "round"),),
    quantities=(
        Quantity("loss", "|y - f(t)|^2 / n of the network", along=("round",)),
        Quantity("expected", "expectation of this loss in the kernel regime", along=("round",)),
        Quantity(
            "turned", "share of a sample's signal that is lost, since the noise of all rounds turns neurons on and off"
        ),
        Quantity("clipped", "number of clients' updates that were clipped in all rounds"),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.3 + 1e-4 * point["width"],
    megabytes=lambda point: 300 + 0.006 * point["width"],
)
