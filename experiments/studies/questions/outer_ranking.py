"""Outer ranking: do trained losses rank outer optimizers, local steps and rates in the order of exact expected losses?

An outer optimizer is what the server does with the mean of the clients' displacements. For each outer optimizer and
each number K of local steps, `tune_outer` finds the best step sizes for a budget of rounds, once for drawn batches and
once for full batches. These candidates are ranked by their exact expected loss with drawn batches.

A cell is a network that the training engine trains with the steps of one candidate, on batches that the prediction does
not use. The two-layer network is predicted by the kernel of infinite width, and a network with convolutions by its own
kernel before training. The outputs before training are added to the labels, so that training and prediction start with
the same residual.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, islice
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import kendalltau

from bounds import Outcome
from bounds.ladders.slopes import LEVEL, RESAMPLES
from experiments.studies.answers import FEWEST_COMPARED, at_most, half_width, untested
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.random_seed import own_seed
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from ntkfl import Estimate, Problem, Setup, data, gram
from ntkfl.exact_dynamics import random_of_method
from ntkfl.initialisation import draw
from ntkfl.limit.infinite_width import algorithm1_limit
from ntkfl.tuned_outer import Drawn, OuterChoice, tune_outer

if TYPE_CHECKING:
    from ntkfl.training.model import Model

SAMPLES, CLIENTS, PARTITION, BATCH, ROUNDS = 200, 5, "shards:2", 4, 20
TUNED_FOR = {"batches": Drawn(batch_size=BATCH), "full batches": Drawn()}
OUTER = ("average", "momentum", "nesterov")
TWO_LAYER, CNN = "two-layer", "cnn"
PREDICTED_RUNS = 1000  # number of runs in the kernel regime, from which the spread of single runs is computed
SOURCE = "docs/proofs/random_rounds.md#server-memory"
CANDIDATE = ("tuned_for", "outer", "local_steps")


@cache
def problem() -> Problem:
    """The data of every cell.

    Every client has the same number n_c of samples. So a step on sums of squares equals a step on means of squares with
    a step size that is n_c times as large.
    """
    return data.digits(SAMPLES, clients=CLIENTS, partition=PARTITION)


def network_name(word: str) -> str:
    """The word, if it is the name of a network.

    Raises:
        ValueError: the word names no network.
    """
    kind, _, width = word.partition(":")
    if kind not in (TWO_LAYER, CNN) or not (width.isdigit() and int(width)):
        raise ValueError(f"there is no network {word!r}; it must be {TWO_LAYER}:WIDTH or {CNN}:CHANNELS")
    return word


def network(name: str, seed: int) -> "Model":
    """The network of a cell.

    If the prediction uses the network's own kernel, all cells share the network and differ in their batches.
    """
    import torch
    from torch import nn

    from ntkfl import networks
    from ntkfl.training.wide_training import displaced_network

    kind, _, width = name.partition(":")
    size = int(width)
    if kind == TWO_LAYER:
        return displaced_network(draw(size, problem().d, own_seed(seed, size, STUDY.name)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first, second = nn.Conv2d(1, size, 3), nn.Conv2d(size, 2 * size, 3)
        # images of eight by eight pixels lose two pixels each way in each convolution
        readout = nn.Linear(2 * size * 4 * 4, 1)
    layers = (nn.Unflatten(1, (1, 8, 8)), first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), readout)
    return networks.network(nn.Sequential(*layers), name=name)


@cache
def kernel(of: str) -> np.ndarray:
    """The kernel of the prediction: the kernel of infinite width for two-layer networks, else the network's own."""
    if of == TWO_LAYER:
        return gram.infinite(problem().x)
    model = network(of, 0)
    return gram.empirical(problem().x, model, model.initial(0))


@cache
def tuned(of: str, tuned_for: str, local_steps: int) -> dict[str, OuterChoice]:
    """The best step sizes of each outer optimizer for the budget."""
    drawn = TUNED_FOR[tuned_for]
    choices = tune_outer(problem(), kernel(of), rounds=ROUNDS, local_steps=(local_steps,), outer=OUTER, drawn=drawn)
    return {choice.outer: choice for choice in choices}


@dataclass(frozen=True)
class Predicted:
    """The exact prediction with drawn batches: the expected loss by round, and the spread of a run at the end."""

    loss: list[float]
    spread: float


@cache
def predicted(of: str, tuned_for: str, outer: str, local_steps: int) -> Predicted:
    """The prediction with drawn batches, for step sizes that were tuned for drawn batches or for full batches."""
    choice, base = tuned(of, tuned_for, local_steps)[outer], algorithm1_limit(problem(), Setup(), kernel(of))
    at = base.at(Setup(eta_local=choice.eta_local, local_steps=local_steps))
    regime = random_of_method(at, choice.method, choice.options, batch_size=BATCH)
    runs = regime.sampled(np.array([ROUNDS]), runs=PREDICTED_RUNS)
    mean = regime.root_mean_square(np.arange(ROUNDS + 1)) ** 2 / SAMPLES
    return Predicted(mean.tolist(), float(runs.square_variance.value[0] ** 0.5 / SAMPLES))


def measure(point: Point) -> Measured:
    """The loss of one trained network by round, and its prediction."""
    import torch  # imported here, since it is slow to load

    from ntkfl.training.engine.local_plan import LocalWork
    from ntkfl.training.methods import build
    from ntkfl.training.objectives import HalfSquares
    from ntkfl.training.wide_training import network_federation

    name, seed, given = point["network"], point[SEED], problem()
    of = TWO_LAYER if name.startswith(TWO_LAYER) else name
    choice = tuned(of, point["tuned_for"], point["local_steps"])[point["outer"]]
    exact, model = predicted(of, *(point[axis] for axis in CANDIDATE)), network(name, seed)
    start = model.outputs(model.initial(0), torch.tensor(given.x)).detach().numpy()
    # the sum of a batch's gradients times `share` estimates the sum of the gradients of all samples of the client
    share = SAMPLES // CLIENTS / BATCH
    setup = Setup(eta_local=share * choice.eta_local, local_steps=choice.local_steps, seed=seed)
    method = build(choice.method, HalfSquares("sum"), **choice.options)
    run = network_federation(replace(given, y=given.y + start), setup, model, method=method)
    run = replace(run, work=LocalWork(batch_size=BATCH, steps=choice.local_steps, independent=True))
    losses = [float("inf")] * (ROUNDS + 1)
    try:
        for t, state in enumerate(islice(run.states(), ROUNDS + 1)):
            outputs = model.outputs(state.model, run.data.x).detach().numpy() - start
            losses[t] = float(((given.y - outputs) ** 2).mean())
    except FloatingPointError:
        pass  # the run has diverged, and its later losses are infinite
    return {"loss": losses, "predicted": exact.loss, "tuned": choice.mean_square, "spread": exact.spread}


@dataclass(frozen=True)
class Ranking:
    """The predicted and the trained losses of all candidates on one network, for the seeds that all candidates have."""

    candidates: list[tuple[str, str, int]]  # what the steps were tuned for, the outer optimizer, and K
    predicted: np.ndarray  # the expected loss after the last round with drawn batches, by candidate
    aimed: np.ndarray  # the expected loss with the kind of batches for which the steps were tuned, by candidate
    # logarithms of the losses, (candidates, seeds, rounds + 1), since some candidates have huge losses on rare seeds
    trained: np.ndarray

    @classmethod
    def of(cls, cells: Cells) -> "Ranking":
        """The ranking from the cells of one network."""
        stacked = cells.stack(candidate=CANDIDATE).transpose("candidate", SEED, "round")
        whole = ~np.isnan(stacked["loss"].to_numpy()).any(axis=(0, 2))
        predicted, aimed, loss = (stacked[name].to_numpy()[:, whole] for name in ("predicted", "tuned", "loss"))
        none = np.array([])
        ends = (predicted[:, 0, -1], aimed[:, 0]) if whole.any() else (none, none)
        return cls(list(stacked.candidate.to_numpy()), ends[0], ends[1], np.log(loss))

    @property
    def names(self) -> list[str]:
        """The candidates in words."""
        return [f"{outer}, K = {steps}, tuned for {tuned_for}" for tuned_for, outer, steps in self.candidates]

    @property
    def seeds(self) -> int:
        """The number of seeds that all candidates have."""
        return self.trained.shape[1]

    @property
    def chosen(self) -> int:
        """The index of the candidate with the least expected loss."""
        return int(self.predicted.argmin())

    def trained_order(self, first: int, other: int) -> int:
        """The sign of the difference of two candidates' trained losses, or 0 if the difference is within its error.

        The means of the logarithms of the losses are compared by Student's intervals. If the differences of the
        logarithms are normal, the intervals of all pairs of candidates are right together with probability LEVEL or
        more. A loss that is infinite for all seeds is larger than a loss that is finite for all seeds.
        """
        pairs = len(self.names) * (len(self.names) - 1) / 2
        one, two = self.trained[first, :, -1], self.trained[other, :, -1]
        if np.isfinite([one, two]).all():
            mean = (one - two).mean()
            return int(np.sign(mean)) if abs(mean) > half_width(one - two, 1 - (1 - LEVEL) / pairs) else 0
        # 1 if all losses are finite, -1 if all are infinite, 0 if they are mixed
        ends = [np.isfinite(losses).all() - 1.0 * np.isinf(losses).all() for losses in (one, two)]
        return int(np.sign(ends[1] - ends[0])) if ends[0] * ends[1] < 0 else 0

    def rounds_lost(self, picked: np.ndarray) -> int:
        """By how many rounds the candidate of least trained loss is ahead of the candidate of least expected loss.

        These rounds remain in the budget when the candidate of least trained loss has reached the final trained loss of
        the candidate of least expected loss. Trained losses are geometric means over the seeds `picked`.
        """
        curves = self.trained[:, picked].mean(axis=1)
        best = curves[:, -1].argmin()
        return int(ROUNDS - np.argmax(curves[best] <= curves[self.chosen, -1]))


def summarise(cells: Cells) -> Iterable[Answer]:
    """Three answers for each network.

    The answers are about the pairs of candidates in the predicted order, the rounds that are lost if the candidate of
    least expected loss is chosen, and the gain of tuning for drawn batches.
    """
    for name in map(str, cells["network"].to_numpy()):
        ranking = Ranking.of(cells.sel({"network": name}))
        claims = (
            f"{name}: trained losses (geometric means) that differ beyond their error are ordered as expected losses",
            f"{name}: how many of {ROUNDS} rounds the best trained steps are ahead of the steps of least expected loss",
            f"{name}: trained with batches, the best steps for batches leave no more loss than those for full batches",
        )
        if ranking.seeds < FEWEST_COMPARED:
            reason = f"{ranking.seeds} seeds that all candidates have; {FEWEST_COMPARED} are needed"
            for claim in claims:
                yield untested(claim, SOURCE, None, reason)
            continue
        yield _order(claims[0], ranking)
        yield _regret(claims[1], ranking)
        yield _gain(claims[2], ranking)


def _order(claim: str, ranking: Ranking) -> Answer:
    predicted, alike, apart = ranking.predicted, [], [1.0]
    for first, other in combinations(range(len(predicted)), 2):
        if sign := ranking.trained_order(first, other):
            alike.append(sign == np.sign(predicted[first] - predicted[other]))
            if not alike[-1]:
                apart.append(max(predicted[first], predicted[other]) / min(predicted[first], predicted[other]))
    if not alike:
        return untested(claim, SOURCE, 1.0, "no pair of candidates is apart beyond the error of the means")
    tau = kendalltau(predicted, ranking.trained[:, :, -1].mean(axis=1)).statistic
    pairs = len(predicted) * (len(predicted) - 1) // 2
    note = f"{sum(alike)} of {len(alike)} pairs whose trained order is seen, of {pairs} pairs; tau {tau:.2f}"
    if not all(alike):
        note += f"; the others are predicted within a factor of {max(apart):.2g}"
    outcome = Outcome.HOLDS if all(alike) else Outcome.UNRESOLVED
    return Answer(claim, SOURCE, 1.0, Estimate.exact(float(np.mean(alike))), outcome, note)


def _regret(claim: str, ranking: Ranking) -> Answer:
    count, rng = ranking.seeds, np.random.default_rng(0)
    value = ranking.rounds_lost(np.arange(count))
    drawn = [ranking.rounds_lost(rng.integers(count, size=count)) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    measured = Estimate(float(value), float(max(value - low, high - value, 0)), f"bootstrap, {LEVEL:.0%}")
    ahead = [name for at, name in enumerate(ranking.names) if ranking.trained_order(ranking.chosen, at) > 0]
    chosen = ranking.names[ranking.chosen]
    note = f"{chosen}: none is seen to be better" if not ahead else f"{chosen}; seen to be better: {'; '.join(ahead)}"
    return Answer(claim, SOURCE, 0.0, measured, Outcome.UNRESOLVED if ahead else Outcome.HOLDS, note)


def _gain(claim: str, ranking: Ranking) -> Answer:
    best = []
    for tuned_for in TUNED_FOR:
        own = [at for at, candidate in enumerate(ranking.candidates) if candidate[0] == tuned_for]
        best.append(min(own, key=lambda at: ranking.aimed[at]))
    one, two = (ranking.trained[at, :, -1] for at in best)
    left = " against ".join(f"{np.exp(losses.mean()):.3g}" for losses in (one, two))
    note = f"{ranking.names[best[0]]}, against {ranking.names[best[1]]}: {left}; measured is the logarithm of the ratio"
    if not np.isfinite([one, two]).all():
        outcome = Outcome.HOLDS if ranking.trained_order(*best) < 0 else Outcome.UNRESOLVED
        return Answer(claim, SOURCE, None, None, outcome, note)
    difference = Estimate(float((one - two).mean()), half_width(one - two, LEVEL), f"Student, {LEVEL:.0%}")
    return at_most(claim, SOURCE, difference, 0.0, note)


def charts(cells: Cells) -> Iterable[Chart]:
    """The losses of trained networks against the expected losses, with a panel for each network."""
    panels = []
    for name in map(str, cells["network"].to_numpy()):
        ranking, series = Ranking.of(cells.sel({"network": name})), []
        predicted, ends = ranking.predicted, ranking.trained[:, :, -1]
        if ranking.seeds >= FEWEST_COMPARED:
            line = sorted(predicted.tolist())
            series.append(Series("equal", "theory", line, line))
            for tuned_for in TUNED_FOR:
                own = [at for at, candidate in enumerate(ranking.candidates) if candidate[0] == tuned_for]
                own = [at for at in own if np.isfinite(ends[at]).all()]
                means, errors = [ends[at].mean() for at in own], [half_width(ends[at], LEVEL) for at in own]
                middle, low, high = (
                    [float(np.exp(mean + side * error)) for mean, error in zip(means, errors, strict=True)]
                    for side in (0, -1, 1)
                )
                expected = [float(predicted[place]) for place in own]
                series.append(Series(f"tuned for {tuned_for}", "measured", expected, middle, low, high))
        x, y = Label("expected loss", log=True), Label("trained loss, geometric mean", log=True)
        panels.append(Panel(name, x, y, tuple(series)))
    yield Chart(
        "outer-ranking",
        f"Losses after {ROUNDS} rounds with batches of {BATCH} against their expectations, for outer optimizers, "
        f"local steps and rates that are tuned for these batches or for full ones: digits, n = {SAMPLES}, {CLIENTS} "
        f"clients, {PARTITION}; {cells.sizes[SEED]} seeds; bars: {LEVEL:.0%} Student intervals over seeds. "
        "Two-layer networks are predicted at infinite width, the CNN by its own kernel.",
        "Log-log plots: trained losses lie near the line of equal losses for two-layer networks.",
        tuple(panels),
    )


STUDY = Study(
    name="outer-ranking",
    question="Do networks rank tuned outer optimizers, local steps and rates by their exact expected losses?",
    source=SOURCE,
    axes=(
        Axis(
            "network",
            (f"{TWO_LAYER}:4096", f"{TWO_LAYER}:16384", f"{CNN}:64"),
            f"{TWO_LAYER}:WIDTH, FL-NTK's, or {CNN}:CHANNELS, two convolutions and a readout as PyTorch draws them",
            option="networks",
            read=network_name,
        ),
        Axis("tuned_for", tuple(TUNED_FOR), "what the steps are tuned for"),
        Axis("outer", OUTER, "outer optimizer"),
        Axis("local_steps", (1, 4), "local steps K", least=1),
        seeds(8, "of batches, and of the two-layer networks"),
    ),
    inner=(Axis("round", tuple(range(ROUNDS + 1)), "round"),),
    quantities=(
        Quantity("loss", "|y - f(t)|^2 / n of the network", along=("round",)),
        Quantity("predicted", "expectation of this loss in the kernel regime, with batches", along=("round",)),
        Quantity("tuned", "expected loss after the last round, with what the steps are tuned for"),
        Quantity("spread", f"standard deviation of the loss after the last round, over {PREDICTED_RUNS} runs"),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 1.5 + 2.5e-4 * int(point["network"].rpartition(":")[2]),
    megabytes=lambda point: 700 + 0.02 * int(point["network"].rpartition(":")[2]),
)
