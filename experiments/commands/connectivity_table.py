"""`ntkfl connectivity-table`: Theorem 3.5, R1, the sure bound and R2 beside the exact truth."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from experiments.commands.bad_input import bad_input

if TYPE_CHECKING:
    import numpy as np

    from bounds.cube_networks import CubeNetworks
    from ntkfl.connectivity.network import TwoLayer

HEADER = ("networks", "d", "Theorem 3.5", "R1", "sure", "R2", "largest gap", "barrier", "accuracy barrier")
PIPED_WIDTH = 140
RATE = 1.0
CLASSES = 10
PARTITION = "dirichlet:0.3"
Row = tuple[str, ...]


def connectivity_table(
    images: Annotated[
        Literal["digits", "fashion-mnist"], typer.Option(help="what the networks are trained on")
    ] = "digits",
    samples: Annotated[int, typer.Option(min=CLASSES, help="images, half of them for each client")] = 400,
    width: Annotated[int, typer.Option(min=1, help="hidden units of the trained networks")] = 32,
    steps: Annotated[int, typer.Option(min=1, help="steps of gradient descent, local ones over all rounds")] = 300,
    clients: Annotated[int, typer.Option(min=2, help="clients of the federated rows")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="rounds of the federated rows")] = 10,
    weight: Annotated[float, typer.Option(min=0, help="of the connectivity loss")] = 1.0,
    delta: Annotated[float, typer.Option(help="failure probability of Theorem 3.5 and R1")] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="of networks and data")] = 0,
) -> None:
    """How far each bound on the barrier between two networks is from the truth.

    First networks drawn in cubes of side d, largest of five draws. Then trained networks, both layers: even against odd
    classes (logistic loss) and ten classes (cross-entropy, every bound times sqrt 2). "alone" and "connected" are
    trained on halves of the images from starts of their own, without and with the connectivity loss to an anchor
    trained on all of them. "FedAvg" and "FedGuCci" are the two clients of the last round with the largest accuracy
    barrier, of data split by Dirichlet(0.3), without and with the connectivity loss to their anchor, the global network
    that the round began with. d is then the side of the smallest cube around the anchor that holds both; trained
    networks are no uniform draws from it, so that Theorem 3.5 and R1 say what they would say of such draws, while the
    sure bound and R2 hold. Theorem 3.5 is taken at d itself, below which its d_epsilon cannot lie by more than (1 -
    delta)^(1/S).
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in HEADER:
        table.add_column(name, justify="left" if name == HEADER[0] else "right", no_wrap=True)
    with bad_input(ValueError, OSError, FloatingPointError):
        if not 0 < delta < 1:
            raise ValueError(f"delta is {delta:g}; it must lie between 0 and 1")
        for row in (
            *_cubes(delta, seed),
            *_trained(images, samples, width, steps, clients, rounds, weight, delta, seed),
        ):
            table.add_row(*(Text(cell) for cell in row))
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    console = Console(width=PIPED_WIDTH if piped else max(PIPED_WIDTH, Console().width))
    with console.capture() as captured:
        console.print(table)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _bounds(case: "CubeNetworks") -> "tuple[float, float, float]":
    """Theorem 3.5 at d, R1 and the sure bound, on the barrier of the case's loss and for its number of outputs."""
    from bounds.fedgucci.cube_terms import L, cube_constants
    from bounds.fedgucci.f9 import AT_TRUE_SIDE
    from bounds.fedgucci.r1 import R1
    from bounds.fedgucci.sure import SURE
    from bounds.formula import evaluate

    constants = cube_constants(case)
    stated, first, sure = (float(evaluate(L * bound, constants).value) for bound in (AT_TRUE_SIDE, R1, SURE))
    return stated, first, sure


def _data_bound(first: "TwoLayer", second: "TwoLayer", x: "np.ndarray", loss: str = "absolute") -> float:
    """R2 on the barrier of this loss, whose labels it does not look at."""
    from bounds.loss_constant import lipschitz_constant
    from bounds.network_pair import NetworkPair

    pair = NetworkPair(first, second, x, x[:, 0], loss)
    return float(lipschitz_constant(loss).value * (pair.bilinear_term.value / 4 + pair.kink_term.value))


def _cubes(delta: float, seed: int) -> "Iterator[Row]":
    from dataclasses import replace

    from bounds.cube_networks import CubeDraw
    from bounds.fedgucci.cube_terms import barrier, gap

    shapes = ((8, 4, 0.5, False), (32, 8, 0.5, False), (512, 8, 0.1, False), (4, 64, 1.0, True), (256, 256, 0.1, False))
    for units, features, side, at_origin in shapes:
        draw = CubeDraw(h=units, l=features, side=side, rows="ball", n=200, at_origin=at_origin, delta=delta)
        cases = [draw.case(5 * seed + number) for number in range(5)]
        case = max(cases, key=lambda case: float(gap(case).value))
        # labels beyond every output make the barrier that of z itself, or of -z: the worse of the two
        worst = max(float(barrier(replace(case, y=0 * case.y + label)).value) for label in (-10, 10))
        numbers = (*_bounds(case), _data_bound(case.networks[0], case.networks[1], case.x), float(gap(case).value))
        name = f"cube: h={units}, l={features}" + (", U_anc = 0" if at_origin else "")
        yield name, f"{side:g}", *(f"{v:.3g}" for v in numbers), f"{worst:.3g}", ""


def _trained(
    images: str, samples: int, width: int, steps: int, clients: int, rounds: int, weight: float, delta: float, seed: int
) -> "Iterator[Row]":
    import numpy as np

    from experiments.two_layer_training import federated_clients, initial_network, trained
    from ntkfl import data

    chosen = {"target": "one-hot", "center": False, "clients": clients, "partition": PARTITION}
    problem = data.BUILT_IN[images](n=samples, seed=seed, **chosen)
    x, digits, half = problem.x, problem.y.argmax(axis=1), samples // 2
    for name, classes in (("even/odd", digits % 2), ("ten classes", digits)):
        rng = np.random.default_rng([seed, 4])
        outputs = int(classes.max()) + 1
        starts = [initial_network(width, x.shape[1], outputs, rng) for _ in range(3)]
        anchor = trained(starts[0], x, classes, steps=steps, rate=RATE)
        for said, share in (("alone", 0.0), ("connected", weight)):
            parts = (slice(None, half), slice(half, None))
            networks = [
                trained(start, x[part], classes[part], anchor=anchor, weight=share, steps=steps, rate=RATE)
                for start, part in zip(starts[1:], parts, strict=True)
            ]
            yield _trained_row(f"{images}, {name}: {said}", anchor, networks, x, classes, delta)
        owned = [(x[rows], classes[rows]) for rows in problem.clients()]
        local = max(1, steps // rounds)
        for said, share in (("FedAvg", 0.0), ("FedGuCci", weight)):
            begun, networks = federated_clients(
                starts[0], owned, rounds=rounds, local_steps=local, rate=RATE, weight=share
            )
            pair = _farthest_apart(networks, x, classes)
            yield _trained_row(f"{images}, {name}: {said}", begun, pair, x, classes, delta)


def _farthest_apart(networks: "list[TwoLayer]", x: "np.ndarray", classes: "np.ndarray") -> "list[TwoLayer]":
    """The two networks with the largest accuracy barrier between them."""
    from itertools import combinations

    from ntkfl.connectivity.barrier import accuracy_barrier

    pairs = list(combinations(networks, 2))
    barriers = [float(accuracy_barrier(one, other, x, classes).value.value) for one, other in pairs]
    return list(pairs[barriers.index(max(barriers))])


def _trained_row(
    name: str, anchor: "TwoLayer", networks: "list[TwoLayer]", x: "np.ndarray", classes: "np.ndarray", delta: float
) -> Row:
    """One output, the difference of the two, under the logistic loss; more under cross-entropy."""
    from bounds.cube_networks import CubeNetworks
    from bounds.fedgucci.cube_terms import barrier, gap
    from ntkfl.connectivity.barrier import accuracy_barrier
    from ntkfl.connectivity.network import TwoLayer

    y, loss = classes, "cross-entropy"
    if anchor.n_outputs == 2:
        anchor, *networks = (TwoLayer(n.hidden, n.readout[1] - n.readout[0]) for n in (anchor, *networks))
        y, loss = 2.0 * classes - 1, "logistic"
    side = 2 * max(float(abs(net.vector() - anchor.vector()).max()) for net in networks)
    case = CubeNetworks(anchor, tuple(networks), side, x, y, delta, loss)
    exact = gap(case), barrier(case), accuracy_barrier(networks[0], networks[1], x, y).value
    numbers = (
        *_bounds(case),
        _data_bound(networks[0], networks[1], x, loss),
        *(float(found.value) if found.lo > 0 else 0.0 for found in exact),
    )
    return name, f"{side:.3g}", *(f"{number:.3g}" for number in numbers)
