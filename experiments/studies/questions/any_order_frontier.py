"""Any-order frontier: from which round on is convergence proved for every order of training, and what limits the proof?

Networks train on digits with tuned heavy-ball momentum at the server. Every few rounds three certificates are tried on
the network: the any-order certificate, and the certificates of the statements fl-ntk/X.11 and X.12. X.11 is also tried
on the network before training, at a step so short that a shorter step would not change the result.

A further quantity, measured before training, is the largest distance D from the weights to a fit of the labels at which
the any-order certificate would hold. A chain reaction in D limits this distance. Consider the m n pairs of a neuron and
a sample x_i. At the kink of x_i a neuron turns on or off for this sample. Some q = sqrt(2/pi) m n kappa D pairs lie
within kappa D of their kinks, where kappa is of the order m^(-1/2). The certificate treats the neurons of these pairs
as held at their kinks. A neuron that is held at the kink of x_i may move by D |G_ij| towards the kink of x_j, where
G = x x^T. So the certificate must hold q sqrt(2/pi) D sum_j |G_ij| more pairs, at distances up to D |G_ij|. These
further pairs raise the squared distance D^2 by gamma D^4, where gamma = (2/pi) m n kappa sum_j |G_ij|^3 / 3. Let D_0 be
the distance without the further pairs, so D_0^2 = D^2 - gamma D^4. As D grows, the right side grows only up to
D = (2 gamma)^(-1/2). This value is the limit of D. The limit scales like m^(-1/4) and about like 1/n. In the measured
cells, further training brings D below the limit. A network is not certified within a given number of rounds if it is so
narrow that its residual falls too slowly.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import numpy as np

from bounds.certificates import THEOREMS, a_priori_certificate, expected
from experiments.studies.answers import along, exponent, upper
from experiments.studies.chart import Chart, Label, Panel, Role, Series
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Point, Quantity, Study, seeds
from ntkfl import Problem, Setup, Weights, certify_any_order, data, gram, interruption
from ntkfl.any_order.certificate import AnyOrderCertificate
from ntkfl.any_order.held_pairs import Grown, grown
from ntkfl.any_order.watching import momentum_checkpoints
from ntkfl.initialisation import draw

RATIO, MOST = 1.2, 100  # `reach` tries labels f + s (y - f) with s = RATIO^-k, for k from 0 to MOST


def reach(certificate: AnyOrderCertificate) -> Grown | None:
    """The any-order certificate for labels f + s (y - f), which are moved towards the outputs f.

    s, at most 1, is the share that is kept of the distance y - f. Bisection finds the largest share at which the
    certificate holds.

    s is known to a factor 1.2, since the certificate fails for the next larger share. (For still larger shares the
    certificate might hold.) The returned certificate has the held pairs A and the fit W* of these labels, and the
    distance of W* is the largest that is certified. The result is None if the certificate does not hold even for the
    smallest share, about 1e-8, or if no W* exists.
    """
    if certificate._grown is None:
        return None
    neurons = certificate._grown.rows.neuron_pass

    @cache
    def at(power: int) -> Grown:
        return grown(neurons, scale=RATIO**-power, **certificate._limits)

    if at(MOST).why:
        return None
    return at(interruption.first(lambda power: not at(power).why, -1, MOST))


ROUNDS, EVERY = 300, 5
SHARE = 0.5  # eta_local as a share of its stability limit
SHORT = 1e-4  # share of eta_local at which X.11 is tried before training; a shorter step gives the same result
NEVER = ("round", "round_x", "held")  # quantities that have no value if no round is certified
WIDE = 500  # the power of the width is fitted to networks with at least this many neurons
SOURCE = "docs/proofs/any_order.md#the-theorem"


def measure(point: Point) -> Measured:
    """The first certified rounds (NaN for none), the any-order certificate's numbers in its first round, and distances.

    `edge` is the largest distance at which the any-order certificate would hold before training, as `reach` finds it,
    and `chain` is the limit of this distance.
    """
    n, width, clients = point["n"], point["width"], point["clients"]
    problem = data.digits(n=n, clients=clients, partition=point["partition"], seed=point[SEED])
    blocks = [gram.infinite(problem.x[members]) for members in problem.members]
    step = SHARE * 2 / max(float(np.linalg.eigvalsh(block)[-1]) for block in blocks)
    setup = Setup(width, eta_local=step, local_steps=point["local_steps"], seed=point[SEED])
    start = draw(width, problem.d, setup.seed)
    edge = reach(certify_any_order(problem, start))
    return {
        "edge": np.nan if edge is None or edge.nearest is None else float(edge.nearest.distance.value),
        "edge_held": np.nan if edge is None else float(len(edge.rows.neuron)),
        "chain": chain_reaction(problem.x, width),
        "a_priori": float(a_priori_certificate(problem, replace(setup, eta_local=SHORT * step), start).shortfall),
        **_first_rounds(problem, setup),
    }


def chain_reaction(x: np.ndarray, width: int) -> float:
    """The limit D = (2 gamma)^(-1/2) of the chain reaction, for unit rows and Gaussian weights.

    kappa of sample i is given by kappa_i^2 m = sum_jl G_ij G_il E[s_j s_l] (H^-1)_jl, where s_j is 1 if a neuron is
    active on x_j, and 0 otherwise.
    """
    inner, h = x @ x.T, gram.infinite(x)
    both = (np.pi - np.arccos(np.clip(inner, -1, 1))) / (2 * np.pi)  # E[s_j s_l]
    kappa = np.sqrt(np.einsum("ij,jl,il->i", inner, both * np.linalg.inv(h), inner) / width)
    others = (np.abs(inner) ** 3).sum(axis=1) - np.diag(inner) ** 3
    gamma = 2 / np.pi * width * (kappa * others).sum() / 3
    return float(1 / np.sqrt(2 * gamma))


def _first_rounds(problem: Problem, setup: Setup) -> dict[str, float]:
    """The first certified rounds by name.

    `round` is the first round with an any-order certificate, whose numbers are `held`, `distance` and `residual`.
    `round_x` is the first round with a certificate of X.11 or X.12. `left` is |y - f| in the last round that was tried.
    """
    at = dict.fromkeys(("round", "held", "distance", "residual", "round_x", "left"), float("nan"))
    for reached, weights in momentum_checkpoints(problem, setup, ROUNDS, EVERY):
        at["left"] = float(np.linalg.norm(problem.y - weights.outputs(problem.x)))
        if np.isnan(at["round"]):
            certificate = certify_any_order(problem, weights)
            if certificate.certified:
                at["round"], at["held"] = float(reached), float(len(certificate.held))
                at["distance"], at["residual"] = float(certificate.distance.value), float(certificate.residual.value)
        if np.isnan(at["round_x"]) and _converges(problem, setup, weights):
            at["round_x"] = float(reached)
        if not np.isnan([at["round"], at["round_x"]]).any():
            break
    return at


def _converges(problem: Problem, setup: Setup, weights: Weights) -> bool:
    """Whether the certificate of X.11 or of X.12 holds.

    Both certificates are computed with error bounds (ball arithmetic), but only if a computation in float64 predicts
    that X.12 holds. Otherwise the result is False.
    """
    if not expected(problem, setup, weights).promising:
        return False
    # X.12 is tried first, since float64 predicts that it holds
    later_first = reversed(tuple(THEOREMS.values()))
    return any(theorem(problem, setup, weights).certified for theorem in later_first)


def summarise(cells: Cells) -> Iterable[Answer]:
    """The largest certified D against the limit of the chain reaction, and the first rounds of the certificates."""
    # axes that do not change the network before training
    once = {name: 0 for name in ("clients", "partition", "local_steps")}
    start = (cells.edge / cells.chain).isel(once)
    wide = start.sel(width=start.width >= WIDE)
    widths = wide.width.to_numpy().astype(float)
    scaled = [sample / size**0.25 for sample, size in zip(along(wide, "width"), widths, strict=True)]
    first, other, prior = (cells[name].to_numpy() for name in ("round", "round_x", "a_priori"))
    measured = ~np.isnan(prior)
    never, none = (measured & np.isnan(rounds) for rounds in (first, other))
    ours, theirs = (np.where(gone, np.inf, rounds) for gone, rounds in ((never, first), (none, other)))
    there, total, left = measured & ~(never & none), int(measured.sum()), cells.left.to_numpy()[never]
    sentence = (
        f"of {total} cells {total - int(never.sum())} certify for any order by round {ROUNDS}, "
        f"{total - int(none.sum())} by X.11 or X.12, {int((prior <= 1).sum())} by the a-priori certificate at the start"
    )
    if len(left):
        sentence += f"; in cells that never certify, |y - f| was {left.min():.2g} or more at the end"
    claim = f"the largest certified D before training, over its factor from the data, ~ m^(-1/4), for m >= {WIDE}"
    note = "a chain reaction in D: neurons that are held make more pairs fail, and D grows when these are held too"
    yield exponent(claim, SOURCE, -0.25, widths, scaled, axes=("width",), note=note)
    yield upper("the largest certified D before training <= twice (2 gamma)^(-1/2)", SOURCE, start, 2.0)
    claim = "first round certified for any order <= first round certified by X.11 or X.12"
    yield upper(claim, SOURCE, np.where(there, ours, np.nan), theirs, note=sentence)


def charts(cells: Cells) -> Iterable[Chart]:
    """First certified rounds, largest distances and held pairs against n, with a series for each width."""

    def panel(title: str, y: Label, name: str, other: str, role: Role, says: str) -> Panel:
        series = []
        for width in cells.width.to_numpy():
            own = f"m = {width}"
            series += [
                Series(own, "measured", *_medians(cells, name, width)),
                Series(f"{says}, {width}", role, *_medians(cells, other, width), of=own),
            ]
        return Panel(title, Label("samples n", log=True), y, tuple(series))

    rounds, pairs = Label("first round", log=True), Label("|A|", "pairs")
    yield Chart(
        "any-order-frontier",
        f"Digits, medians over clients, partitions, K and {cells.sizes[SEED]} seeds; tuned momentum at the server, "
        f"judged after every {EVERY} of at most {ROUNDS} rounds. Left: the first round that is certified; cells "
        "without one count as later than all others. Middle: the largest distance to W* at which the network of "
        "the start would be certified, and the D above which held pairs make D grow without end, (2 gamma)^(-1/2). "
        "Right: the pairs held.",
        "The any-order certificate comes first; its reach falls about as 1/n, with the chain reaction.",
        (
            panel("first round certified", rounds, "round", "round_x", "bound", "X.11/X.12"),
            panel("reach at the start", Label("D", log=True), "edge", "chain", "theory", "chain reaction"),
            panel("pairs held, first round certified", pairs, "held", "edge_held", "bound", "at the largest D"),
        ),
    )


def _medians(cells: Cells, name: str, width: int) -> tuple[list[float], list[float]]:
    """The medians of a quantity at one width, for every number n of samples at which the median is finite.

    A median is over all axes but n and the width. Returns these values of n, and the medians.
    """
    values = (
        cells[name].where(cells.a_priori.isnull() | cells[name].notnull(), np.inf) if name in NEVER else cells[name]
    )
    rest = [axis for axis in values.dims if axis not in ("n", "width")]
    middle = values.sel(width=width).median(rest).to_numpy()
    there = np.isfinite(middle)
    return cells.n.to_numpy()[there].astype(float).tolist(), middle[there].tolist()


STUDY = Study(
    name="any-order-frontier",
    question="From which round on is convergence proved for any order of training, and what ends the proof's reach?",
    source=SOURCE,
    axes=(
        Axis("n", (20, 50, 100, 200), "samples", least=2),
        Axis("width", (64, 500, 1000, 4000, 16000), "neurons", option="widths", least=1),
        Axis("clients", (10,), "clients", least=1),
        Axis("partition", ("iid", "dirichlet:0.3"), "how samples are split"),
        Axis("local_steps", (1, 5), "local steps K", least=1),
        seeds(2, "of data and network"),
    ),
    quantities=(
        Quantity("round", "first round certified for any order"),
        Quantity("held", "pairs held in that round"),
        Quantity("distance", "distance D in that round"),
        Quantity("residual", "|y - f| in that round"),
        Quantity("round_x", "first round certified by X.11 or X.12"),
        Quantity("left", "|y - f| in the last round that was tried"),
        Quantity("edge", "largest D at which the network before training would be certified, to a factor 1.2"),
        Quantity("edge_held", "pairs held at this D"),
        Quantity("chain", "D above which a chain reaction is predicted, (2 gamma)^(-1/2)"),
        Quantity(
            "a_priori", "needed movement over the radius of the a-priori certificate, before training, at short steps"
        ),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 1 + 7e-4 * point["n"] ** 2 + 2e-5 * point["n"] * point["width"],
    megabytes=lambda point: 700 + 3e-4 * point["n"] * point["width"],
)
