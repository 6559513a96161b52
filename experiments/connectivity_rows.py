"""Bounds on the barrier between two networks, beside the exact barrier, for drawn and for trained networks.

The bounds are Theorem 3.5 of FedGuCci, and three bounds that are proved in this project: R1, the sure bound and R2
(statements fedgucci/R1 and fedgucci/R2). Theorem 3.5 and R1 are about networks drawn in a cube around an anchor
network.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from jaxtyping import Float

from bounds.cases.cube_networks import CubeFamily, CubeNetworks
from bounds.cases.network_pair import NetworkPair, lipschitz_constant
from bounds.fedgucci.cube_bounds import R1
from bounds.fedgucci.premises.cube_symbols import AT_TRUE_SIDE, SURE, L
from bounds.fedgucci.premises.cube_terms import barrier, cube_constants, gap
from bounds.formula import evaluate
from ntkfl import data
from ntkfl.connectivity.barrier import A_CROSSING, accuracy_barrier
from ntkfl.connectivity.network import TwoLayer, combination
from ntkfl.connectivity.two_layer_training import draw_two_layer, train_two_layer
from ntkfl.memory import require
from ntkfl.messages import require_size

RATE = 1.0
# the memory is computed for NETWORKS networks besides the clients' networks, each with CLASSES outputs
NETWORKS, CLASSES = 10, 10
PARTITION = "dirichlet:0.3"
CUBES = ((8, 4, 0.5, False), (32, 8, 0.5, False), (512, 8, 0.1, False), (4, 64, 1.0, True), (256, 256, 0.1, False))


@dataclass(frozen=True)
class BoundsRow:
    """The bounds on the barrier between two networks, and the barrier itself.

    Args:
        side: side of the cube of the draw, or of the smallest cube around their anchor that holds both networks.
        stated: the bound of Theorem 3.5 at that side.
        first: R1.
        sure: the sure bound.
        by_data: R2.
        gap: the largest gap between the outputs on the segment and the interpolated outputs, exact.
        barrier: the loss barrier, exact.
        accuracy: the accuracy barrier; None for networks without classes.
    """

    networks: str
    side: float
    stated: float
    first: float
    sure: float
    by_data: float
    gap: float
    barrier: float
    accuracy: float | None = None


def cube_rows(delta: float = 0.1, seed: int = 0) -> Iterator[BoundsRow]:
    """Rows about networks drawn in cubes of side d; each row shows the draw whose gap is the largest among five draws.

    Args:
        delta: failure probability of Theorem 3.5 and R1, default .1.
        seed: seed of the draws, default 0.
    """
    for units, features, side, at_origin in CUBES:
        draw = CubeFamily(h=units, l=features, side=side, rows="ball", n=200, at_origin=at_origin, delta=delta)
        cases = [draw.case(5 * seed + number) for number in range(5)]
        case = max(cases, key=lambda case: float(gap(case).value))
        # The labels lie beyond every output, so the loss is linear in the outputs. The barrier of the loss is then the
        # barrier of the output, or of its negative; the larger of these two barriers is taken.
        worst = max(float(barrier(replace(case, y=0 * case.y + label)).value) for label in (-10, 10))
        numbers = (*_bounds(case), _data_bound(case.networks[0], case.networks[1], case.x), float(gap(case).value))
        name = f"cube: h={units}, l={features}" + (", U_anc = 0" if at_origin else "")
        yield BoundsRow(name, side, *numbers, worst)


def trained_rows(
    images: str = "digits",
    samples: int = 400,
    width: int = 32,
    *,
    steps: int = 300,
    clients: int = 4,
    rounds: int = 10,
    weight: float = 1.0,
    delta: float = 0.1,
    seed: int = 0,
) -> Iterator[BoundsRow]:
    """Rows about trained networks, for two and for ten classes.

    The networks are trained alone, connected to an anchor, or as clients of FedAvg and of FedGuCci.

    Args:
        images: a data set of `ntkfl.data.BUILT_IN`; default digits.
        samples: number of samples, half for each of two networks; default 400.
        width: hidden units; default 32.
        steps: number of steps of gradient descent, which for clients are spread over all rounds; default 300.
        clients: clients of the federated rows, default 4.
        rounds: rounds of the federated rows, default 10.
        weight: weight of the connectivity loss; default 1.
        delta: failure probability of Theorem 3.5 and R1; default 0.1.
        seed: seed of networks and data; default 0.

    Raises:
        TooLittleMemory: the networks are too wide, or there are too many samples. ValueError, OSError: the data do not
            exist, or do not allow these options.
        FloatingPointError: training overflowed.
    """
    chosen = {"target": "one-hot", "center": False, "clients": clients, "partition": PARTITION}
    problem = data.BUILT_IN[images](n=samples, seed=seed, **chosen)
    x, digits, half = problem.x, problem.y.argmax(axis=1), samples // 2

    def needs(width: int, clients: int) -> float:
        return float(width * (A_CROSSING * len(x) + 8 * (NETWORKS + clients) * (problem.d + CLASSES)))

    require("training the networks", needs, width=width, clients=clients)
    for name, classes in (("even/odd", digits % 2), ("ten classes", digits)):
        rng = np.random.default_rng([seed, 4])
        outputs = int(classes.max()) + 1
        starts = [draw_two_layer(width, x.shape[1], outputs, rng) for _ in range(3)]
        anchor = train_two_layer(starts[0], x, classes, steps=steps, rate=RATE)
        for which, share in (("alone", 0.0), ("connected", weight)):
            parts = (slice(None, half), slice(half, None))
            networks = [
                train_two_layer(start, x[part], classes[part], anchor=anchor, weight=share, steps=steps, rate=RATE)
                for start, part in zip(starts[1:], parts, strict=True)
            ]
            yield _trained_row(f"{images}, {name}: {which}", anchor, networks, x, classes, delta)
        owned = [(x[rows], classes[rows]) for rows in problem.members]
        local = max(1, steps // rounds)
        for which, share in (("FedAvg", 0.0), ("FedGuCci", weight)):
            begun, networks = _federated_clients(
                starts[0], owned, rounds=rounds, local_steps=local, rate=RATE, weight=share
            )
            pair = _farthest_apart(networks, x, classes)
            yield _trained_row(f"{images}, {name}: {which}", begun, pair, x, classes, delta)


def _bounds(case: CubeNetworks) -> tuple[float, float, float]:
    """Theorem 3.5 at d, R1 and the sure bound, as bounds on the barrier of the case's loss."""
    constants = cube_constants(case)
    stated, first, sure = (float(evaluate(L * bound, constants).value) for bound in (AT_TRUE_SIDE, R1, SURE))
    return stated, first, sure


def _data_bound(first: TwoLayer, second: TwoLayer, x: np.ndarray, loss: str = "absolute") -> float:
    """R2, a bound on the barrier of this loss that does not depend on the labels."""
    pair = NetworkPair(first, second, x, x[:, 0], loss)
    return float(lipschitz_constant(loss).value * (pair.bilinear_term.value / 4 + pair.kink_term.value))


def _farthest_apart(networks: list[TwoLayer], x: np.ndarray, classes: np.ndarray) -> list[TwoLayer]:
    """The two networks with the largest accuracy barrier between them."""
    pairs = list(combinations(networks, 2))
    barriers = [float(accuracy_barrier(first, second, x, classes).value.value) for first, second in pairs]
    return list(pairs[barriers.index(max(barriers))])


def _trained_row(
    name: str, anchor: TwoLayer, networks: Sequence[TwoLayer], x: np.ndarray, classes: np.ndarray, delta: float
) -> BoundsRow:
    """The row of two trained networks.

    The loss of networks with two outputs is the logistic loss of their difference; with more outputs it is
    cross-entropy.
    """
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
        *(float(estimate.value) if estimate.lo > 0 else 0.0 for estimate in exact),
    )
    return BoundsRow(name, side, *numbers)


def _federated_clients(
    start: TwoLayer,
    clients: Sequence[tuple[Float[np.ndarray, "n l"], np.ndarray]],
    *,
    rounds: int,
    local_steps: int,
    rate: float,
    weight: float = 0.0,
) -> tuple[TwoLayer, list[TwoLayer]]:
    """The anchor and the clients' networks of FedGuCci's last round.

    The anchor is the global model at the beginning of that round.
    """
    require_size("rounds", rounds)
    total, networks = sum(len(x) for x, _ in clients), [start]
    for round_ in range(rounds):
        anchor = combination(networks, [len(x) / total for x, _ in clients]) if round_ else start
        networks = [
            train_two_layer(anchor, x, classes, steps=local_steps, rate=rate, anchor=anchor, weight=weight)
            for x, classes in clients
        ]
    return anchor, networks
