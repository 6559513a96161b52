"""Averaging factors: how does the error of the averaged model split into the factors of IMA's Theorem 1 in each round?

The error is an expectation over draws of the clients' models. In each draw all clients start from the same network, and
are averaged in every round. The factors and the remainder are computed independently of the error. The study tests
whether the factors and the remainder sum to the error.
"""

from collections.abc import Iterable
from dataclasses import fields, replace

import numpy as np

from experiments.studies.answers import equal, untested, upper
from experiments.studies.chart import Chart, Label, Panel
from experiments.studies.series import STUDENT_BARS, line, mean, points
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from ntkfl import Setup, Weights, data
from ntkfl.connectivity.client_training import trained_clients
from ntkfl.connectivity.five_factors import ErrorFactors, error_factors
from ntkfl.initialisation import draw

N_SAMPLES, CLIENTS, WIDTH, ETA, ROUNDS, DRAWS = 40, 4, 256, 0.1, 12, 16
EPS = float(np.finfo(float).eps)
FACTORS = tuple(field.name for field in fields(ErrorFactors))
PARTS = ("train_bias", "heterogeneity_bias", "cross", "variance", "covariance", "remainder")
DOMINATES = "IMA, section 5.3.1, Figure 2"
CHECK = "checks the code: the claim holds for all networks by algebra"
GAP, SCALE = "squared_gap", "scale"


def measure(point: Point) -> Measured:
    """Three measurements after every round: the factors, the squared gap, and the scale of rounding errors.

    The squared gap is E (f_FMA - f_WENS)^2, and the scale of rounding errors is (max |f_k| + max |y|)^2.

    f_FMA is the output of the averaged model, f_k that of client k, and f_WENS the mean of all f_k.
    """
    seed = point[SEED]
    problem = data.digits(n=N_SAMPLES, seed=seed, clients=CLIENTS, partition=point["partition"])
    setup = Setup(width=WIDTH, eta_local=ETA, local_steps=point["local_steps"])
    seeds = np.random.SeedSequence(seed).generate_state(DRAWS)
    averages = [draw(WIDTH, problem.d, int(start)) for start in seeds]

    def outputs(hidden: np.ndarray, signs: np.ndarray) -> np.ndarray:
        return np.maximum(hidden @ problem.x.T, 0).swapaxes(-1, -2) @ signs / np.sqrt(WIDTH)

    values: dict[str, list[float]] = {name: [] for name in (*FACTORS, GAP, SCALE)}
    for _ in range(ROUNDS):
        models = [trained_clients(problem, setup, weights) for weights in averages]
        averages = [Weights(model.mean(axis=0), old.signs) for model, old in zip(models, averages, strict=True)]
        of_clients = np.stack([outputs(model, old.signs) for model, old in zip(models, averages, strict=True)])
        averaged = np.stack([outputs(*weights) for weights in averages])
        factors = error_factors(of_clients, averaged, problem.y, problem.owner, np.full(CLIENTS, 1 / CLIENTS))
        of_pairs = replace(factors, covariance=covariance(of_clients))
        for name in FACTORS:
            values[name].append(getattr(of_pairs, name))
        values[GAP].append(float(((averaged - of_clients.mean(axis=1)) ** 2).mean()))
        values[SCALE].append(float((np.abs(of_clients).max() + np.abs(problem.y).max()) ** 2))
    return values


def covariance(outputs: np.ndarray) -> float:
    """The sum over pairs k != k' of Cov(f_k, f_k') / K^2, as the mean over samples.

    The outputs have the shape (draws, K, samples).

    The covariance is computed from this definition, and not as the total variance less the variance factor. So the test
    whether the factors and the remainder sum to the error can fail.
    """
    centred = outputs - outputs.mean(axis=0)
    pairs = np.einsum("mkn,mln->kl", centred, centred) / (len(outputs) * outputs.shape[2])
    return float(pairs[~np.eye(len(pairs), dtype=bool)].sum() / len(pairs) ** 2)


def summarise(cells: Cells) -> Iterable[Answer]:
    """Four facts about the factors, and IMA's claim about the heterogeneity bias.

    The first fact is that the factors and the remainder sum to the error. The other three are the bound on the
    remainder, the lower bound of the covariance, and the bound on the variance of a mean.

    The four facts follow by algebra for all networks, so testing them only checks the code of the factors.
    """
    total = sum(cells[name] for name in PARTS)
    scale = cells[SCALE].to_numpy()
    rounding = 8 * (N_SAMPLES + DRAWS + CLIENTS) * EPS * scale
    largest = float(np.max(scale, initial=1.0, where=np.isfinite(scale)))
    claim = "E (y - f_FMA)^2 = biases + their cross term + variance + covariance + remainder"
    difference = total - cells.averaged_error
    yield equal(claim, "averaging/I4; IMA, Theorem 1", difference, rounding, largest, note=CHECK)
    claim = "|remainder| <= 2 sqrt(E (y - f_WENS)^2 E g^2) + E g^2, g = f_FMA - f_WENS"
    most = 2 * np.sqrt(cells.ensemble_error * cells[GAP]) + cells[GAP]
    yield upper(claim, "averaging/I4", abs(cells.remainder), most, rounding, rounding, note=CHECK)
    claim = "-covariance <= variance: the lower bound of the covariance factor"
    note = f"{CHECK}; clients that share their start have a positive covariance, which averaging does not take away"
    yield upper(claim, "averaging/I8", -cells.covariance, cells.variance, rounding, rounding, note=note)
    claim = "variance + covariance <= K variance: a mean varies no more than its members do on average"
    note, of_mean = f"{CHECK}; K clients of equal shares", cells.variance + cells.covariance
    yield upper(claim, "averaging/I2", of_mean, CLIENTS * cells.variance, rounding, rounding, note=note)
    yield dominates(cells)


def dominates(cells: Cells) -> Answer:
    """IMA's claim about Theorem 1: if clients are unlike, heterogeneity bias is the largest part after early training.

    The claim is compared with the exact parts in the last round, for clients with different classes, and for the
    largest number of local steps.
    """
    claim = "late in training, if clients are unlike, the heterogeneity bias is the largest part of the error"
    late = cells.isel(round=-1).sel(partition="shards:1") if "shards:1" in cells.partition else None
    if late is None:
        return untested(claim, DOMINATES, None, "needs the partition shards:1", ("partition",))
    late = late.sel(local_steps=late.local_steps.max())
    others = np.max([np.abs(late[name]) for name in PARTS if name != "heterogeneity_bias"], axis=0)
    note = "the other parts are compared by their absolute values; digits, two layers, squared loss"
    return upper(claim, DOMINATES, others, late.heterogeneity_bias.to_numpy(), note=note)


def charts(cells: Cells) -> Iterable[Chart]:
    """The factors against the round at the largest number of local steps, with a panel for each partition."""
    steps = int(cells.local_steps.max())
    panels = []
    for partition in cells.partition.to_numpy():
        at = cells.sel(partition=partition, local_steps=steps)
        parts = (points(name.replace("_", " "), at[name], "round", mean) for name in PARTS)
        total = line("their sum (dashed)", at.averaged_error, "round", over=mean)
        label = Label("part of the squared error")
        panels.append(Panel(f"partition {partition}, K = {steps}", Label("round"), label, (*parts, total)))
    yield Chart(
        "averaging-factors",
        f"Error of the averaged model on all samples, split into its factors; digits, n = {N_SAMPLES}, d = 64, "
        f"{CLIENTS} clients, width {WIDTH}, eta_local = {ETA:g}, {DRAWS} joint draws a cell; {cells.sizes[SEED]} "
        f"seeds; {STUDENT_BARS}.",
        "Factors of the error over rounds: the heterogeneity bias leads and falls; the remainder stays small.",
        tuple(panels),
    )


STUDY = Study(
    name="averaging-factors",
    question="How does the error of the averaged model split into the paper's factors, round by round?",
    source="IMA, Theorem 1, (13)-(14); averaging/I4, averaging/I8",
    axes=(
        Axis("partition", ("iid", "shards:1"), "partition of the samples over the clients"),
        Axis("local_steps", (1, 4, 16), "local steps K", least=1),
        seeds(5, "of data and networks"),
    ),
    inner=(Axis("round", tuple(range(1, ROUNDS + 1)), "round", "rounds"),),
    quantities=(
        *(Quantity(name, f"{name.replace('_', ' ')}, IMA Theorem 1", along=("round",)) for name in FACTORS),
        Quantity(GAP, "E (f_FMA - f_WENS)^2", along=("round",)),
        Quantity(SCALE, "(max |f_k| + max |y|)^2", along=("round",)),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 2.0 + 0.3 * point["local_steps"],
    megabytes=lambda point: 350,
)
