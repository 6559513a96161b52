"""Generalisation: the bound of Theorem C.11 against the loss on held-out digits, with true and with random labels.

The networks are infinitely wide, and trained by FedAvg from f = 0 for the theorem's number of rounds.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from bounds import Form
from bounds.fl_ntk.cases.generalisation_case import Loss, TrainedOnSample, UserData
from bounds.fl_ntk.population_loss import MAIN, STATEMENTS, constants
from bounds.formula import evaluate
from experiments.studies.answers import FEWEST_COMPARED, errors, sampled, untested, upper
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.random_seed import own_seed
from experiments.studies.series import STUDENT_BARS, line, mean, places, points
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from ntkfl import Estimate, Problem, kernel_regime
from ntkfl.estimate import Rigour

DELTA, HELD_OUT = 0.01, 700
TRUE, RANDOM = "true", "random"
LOSS = Loss()  # min(1, |f - y|), since the repaired form of C.11 assumes a loss that is 0 if f is the label
SOURCE = "fl-ntk/C.11"
(STATED,) = (statement for statement in STATEMENTS if statement.id == SOURCE)


@dataclass(frozen=True)
class RandomLabels(UserData):
    """The same samples, with a fair coin for every label of training and held-out samples."""

    def sample(self, n: int, held_out: int, seed: int, clients: int) -> Problem:
        problem = super().sample(n, held_out, seed, clients)
        assert problem.y_test is not None, "UserData holds samples out"
        coins = np.random.default_rng([seed, n, 9]).choice([-1.0, 1.0], size=n + len(problem.y_test))
        return replace(problem, y=coins[:n], y_test=coins[n:])


def trained_case(point: Point) -> TrainedOnSample:
    """The network trained for one cell (one measurement of the study), with samples drawn separately for each n.

    If the samples of a smaller n were part of the samples of a larger n, failures of different cells would not be
    independent.
    """
    source = {TRUE: UserData, RANDOM: RandomLabels}[point["labels"]]("digits")
    seed = own_seed(point[SEED], point["n"], bits=32)
    return TrainedOnSample(source, point["n"], LOSS, seed, DELTA, held_out=HELD_OUT)


def measure(point: Point) -> Measured:
    """The bound, its main term, and the loss and the error on held-out digits."""
    case = trained_case(point)
    known = constants(case)
    (bound,) = STATED.forms[Form.REPAIRED].evaluate(known)
    problem = case.problem
    assert problem.y_test is not None, "digits are held out"
    outputs = kernel_regime(problem, case.setup).predict(problem.x_test, case.setup.rounds)
    return {
        "bound": bound,
        "main_term": evaluate(MAIN, known),
        "loss": case.population_loss,
        "error": float((np.sign(outputs) != problem.y_test).mean()),
        "held_out": float(len(problem.y_test)),
    }


def summarise(cells: Cells) -> Iterable[Answer]:
    """The answers about the bound for each kind of labels.

    For random labels there are two more answers: that the bound is vacuous, and that no network predicts them.
    """
    for labels in cells.labels.to_numpy():
        at = cells.sel(labels=labels)
        bound, unsure, loss, less_sure = at.bound, errors(at, "bound"), at["loss"], errors(at, "loss")
        claim = f"L_D <= sqrt(2 y^T H^-1 y / n) + O(1/sqrt n) with probability {1 - DELTA}, digits with {labels} labels"
        note = f"{int((bound < 1).sum())} of {int(np.isfinite(bound).sum())} bounds are below the trivial bound 1"
        yield upper(claim, SOURCE, loss, bound, less_sure, unsure, note=note, failure=DELTA)
        if labels == RANDOM:
            claim = "random labels: the main term sqrt(2 y^T H^-1 y / n) is at least 1, so that the bound is vacuous"
            yield upper(claim, SOURCE, 1.0, at.main_term)
            yield _coins(at)


def _coins(at: Cells) -> Answer:
    """The answer about the share of wrong signs on random labels, with Clopper and Pearson's interval."""
    claim = "random labels: half of the held-out signs are wrong"
    share, count = at.error.to_numpy().ravel(), at.held_out.to_numpy().ravel()
    there = ~np.isnan(share)
    if there.sum() < FEWEST_COMPARED:
        return untested(claim, SOURCE, 0.5, f"{int(there.sum())} cells; {FEWEST_COMPARED} are needed")
    wrong, tried = round((share * count)[there].sum()), round(count[there].sum())

    def interval_at(level: float) -> Estimate:
        low, high = stats.binomtest(wrong, tried).proportion_ci(level, method="exact")
        return Estimate.between(low, high, f"Clopper-Pearson {level:.6g}", Rigour.SAMPLED)

    return sampled(claim, "the labels are coins", 0.5, interval_at, f"{tried} held-out labels in all")


def charts(cells: Cells) -> Iterable[Chart]:
    """Bound, loss and error against n, with a panel for each kind of labels."""
    panels = []
    for labels in cells.labels.to_numpy():
        at, sizes = cells.sel(labels=labels), places(cells, "n")
        series = (
            points("loss min(1, |f - y|)", at["loss"], "n", mean),
            points("share of wrong signs", at.error, "n", mean),
            line("Theorem C.11 (dotted)", at.bound, "n", "bound", over=mean),
            Series("the trivial bound (dashed)", "theory", sizes, [1.0] * len(sizes)),
        )
        x, y = Label("training samples n", log=True), Label("held-out loss, error, bound", log=True)
        panels.append(Panel(f"{labels} labels", x, y, series))
    yield Chart(
        "generalisation",
        f"Held-out loss and error of infinitely wide networks trained by FedAvg on n digits, and Theorem C.11's "
        f"bound at delta = {DELTA}; d = 64, {cells.sizes[SEED]} seeds, {HELD_OUT} held out; "
        f"{STUDENT_BARS}.",
        "Loss, error and bound against n: they fall with true labels; with random labels the bound does not.",
        tuple(panels),
    )


STUDY = Study(
    name="generalisation",
    question="Does the generalisation bound hold on digits, and does it tell true labels from random ones?",
    source="FL-NTK, Theorems 4.3 and C.11",
    axes=(
        Axis("n", (32, 64, 128, 256, 512, 1024), "training samples", least=1),
        Axis("labels", (TRUE, RANDOM), "labels of the digits: 5-9 against 0-4, or random signs"),
        seeds(4, "of the draw, and of the random signs"),
    ),
    quantities=(
        Quantity("bound", "right side of Theorem C.11, repaired form"),
        Quantity("main_term", "main term of this right side, sqrt(2 y^T H_inf^-1 y / n)"),
        Quantity("loss", "mean over held-out samples of min(1, |f - y|)"),
        Quantity("error", "share of held-out samples with the wrong sign"),
        Quantity("held_out", "number of held-out samples", "samples"),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.3 + 1.5e-6 * point["n"] ** 2,
    megabytes=lambda point: 300 + 1e-4 * point["n"] ** 2,
)
