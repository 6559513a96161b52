"""Families of linear cases: tiny cases in rationals, and networks linearised in their weights in float64."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Family, Options
from bounds.federated_run import FederatedFamily, federated_families
from bounds.fedgucci.cases.linear_case import LinearCase
from ntkfl.connectivity.linear_rounds import LinearRounds
from ntkfl.initialisation import draw

NEURONS = 8  # hidden neurons of the linearised networks: a sample has NEURONS * d tangent features
MOST = 150  # most samples of the user's data


def _linear(base: FederatedFamily | None, anchors: int, reach: int, seed: int) -> LinearCase:
    """Data, start, steps, participants and beta (1/8 to 8) of a seed; eta_l (1 + beta/3) lambda is at most 1.2."""
    rng = np.random.default_rng([seed, 17])
    if base is None:
        count = int(rng.integers(1, 4))
        owner = np.concatenate([np.arange(count), rng.integers(0, count, rng.integers(0, 4))])
        features = _eighths(rng, (len(owner), int(rng.integers(1, 4))))
        features[:, 0] += np.where(features.any(axis=1), 0, 1)  # a sample without features has no curvature
        labels, start = _eighths(rng, len(owner)), _eighths(rng, features.shape[1])
    else:
        problem = base.problem(seed)
        kept = np.arange(min(problem.n, MOST))
        x, labels = problem.x[kept], np.asarray(problem.y, float).reshape(problem.n, -1)[kept, 0]
        owner = np.unique(problem.owner[kept], return_inverse=True)[1]
        features, start = _tangents(x, seed)
    sizes = np.bincount(owner)
    beta = float(np.exp2(rng.integers(-3, 4)))
    scale = 2 / sizes if rng.integers(2) else np.ones(len(sizes))
    largest = max(scale[c] * np.linalg.norm(features[owner == c], 2) ** 2 for c in range(len(sizes)))
    step = rng.uniform(0.05, 1.2) / (largest * (1 + beta / 3))
    rounds = int(rng.integers(1, 4)) + anchors - 1
    run = LinearRounds(
        features,
        labels,
        owner,
        scale,
        sizes.astype(float) if rng.integers(2) else rng.integers(1, 9, len(sizes)) / 4,
        start,
        tuple(_some(rng, len(sizes)) for _ in range(rounds)),
        float(np.float32(step)),
        float(rng.integers(2, 11) / 8),
        int(rng.integers(1, reach + 1)),
    )
    kind = "samples of eighths" if base is None else f"{base.name}, linearised network"
    return LinearCase(run, beta, int(rng.integers(1, anchors + 1)), base is None, kind)


def _tiny(base: FederatedFamily | None, most: int, reach: int) -> SearchStrategy[LinearCase]:
    """Cases in rationals; also with the fourth power of the residual, with weight decay and with more anchors."""

    def tiny(seed: int, degree: int, decay: float, anchors: int) -> LinearCase:
        case = _linear(None, most, reach, seed)
        run = replace(case.run, degree=degree, decay=decay)
        if degree > 2:  # each step multiplies the number of a rational's digits
            run = replace(run, local_steps=1, participants=run.participants[:2])
        return replace(case, run=run, anchors=anchors)

    decays = st.sampled_from([0.0, 0.0, 0.125, 1.0])
    return st.builds(tiny, st.integers(0, 2**31), st.sampled_from([2, 2, 4]), decays, st.sampled_from([1, 1, 2, 3]))


def _eighths(rng: np.random.Generator, shape) -> np.ndarray:
    return rng.integers(-8, 9, shape) / 8


def _some(rng: np.random.Generator, count: int) -> tuple[int, ...]:
    """The clients of one round: any number of them."""
    return tuple(int(c) for c in np.sort(rng.permutation(count)[: rng.integers(1, count + 1)]))


def _tangents(x: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of a ReLU network in its initial hidden weights, (n, p), and these weights, (p,).

    Their product is the network's output, since the output is homogeneous of degree one in the hidden weights.
    """
    weights = draw(NEURONS, x.shape[1], seed)
    active = (x @ weights.hidden.T >= 0) * weights.signs / np.sqrt(NEURONS)
    return (active[:, :, None] * x[:, None, :]).reshape(len(x), -1), weights.hidden.ravel()


def linear_families(options: Options, *, anchors: int = 1, reach: int = 4) -> tuple[Family, ...]:
    """Tiny cases in rationals, 60 seeds, and linearised networks on digits and sphere, or on the user's data, 20."""
    families = [Family("samples of eighths, in rationals", _linear, _tiny, (None, anchors, reach), trials=60)]
    families += [
        Family(f"{base.name}, linearised, float64", _linear, _tiny, (base, anchors, reach))
        for base in federated_families(options)
    ]
    return tuple(family.with_trials(options.trials) for family in families)
