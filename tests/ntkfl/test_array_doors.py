"""Tests of public functions: each refuses an argument that is no array of real numbers, and names the argument.

No mask, imaginary part, numeric word, NaN or infinity is dropped or read without a message.
"""

import inspect
import re
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import ntkfl
from ntkfl import exact_dynamics, fastest_method, gram, partition, privacy, tuned_outer
from ntkfl.connectivity import (
    alignment,
    barrier,
    curves,
    discrepancy,
    draw_two_layer,
    five_factors,
    least_barrier,
    linear_rounds,
    losses,
    low_loss_region,
    network_files,
    planes,
    quadratic_clients,
    train_two_layer,
)
from ntkfl.connectivity.network import AffineTwoLayer, TwoLayer, checked_inputs, with_constant
from ntkfl.connectivity.units import torch_alignment
from ntkfl.connectivity.units.torch_alignment import TorchNetwork
from ntkfl.gram.tiles import Tiles
from ntkfl.limit_curves import limit_curves, several_limit_curves
from ntkfl.training import FederatedData

RNG = np.random.default_rng(0)
X, Y, OWNER, U = RNG.normal(size=(4, 3)), np.array([1.0, -1, 1, -1]), np.arange(4) % 2, np.eye(5, 3) - 0.3
SIGNS = np.array([1.0, -1, 1, -1, 1])
H = gram.infinite(X)
PROBLEM, SETUP = ntkfl.Problem(X, Y, OWNER), ntkfl.Setup(width=5, rounds=2, eta_local=0.1)
WEIGHTS = ntkfl.Weights(U, SIGNS)
NETWORKS = [TwoLayer(U + k**2, SIGNS + k) for k in range(3)]
TORCH = TorchNetwork.of(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)).double())
TWO: dict[str, Any] = {"first": NETWORKS[0], "second": NETWORKS[1]}
LABELLED = {"x": X, "y": Y}
VECTORS = [network.vector() for network in NETWORKS]
PLANE = planes.plane_through(VECTORS)
MODEL = ntkfl.network(nn.Linear(3, 1, dtype=torch.float64))
LOSS: dict[str, Any] = {
    "losses": lambda points: (points**2).sum(axis=1),
    "below": 1.0,
    "centre": np.zeros(2),
    "side": 2.0,
}
LOSS |= {"rng": np.random.default_rng(0)}
CLIENT: dict[str, Any] = {
    "features": X,
    "labels": Y,
    "owner": OWNER,
    "scale": np.ones(2),
    "weights": np.ones(2),
    "start": np.zeros(3),
}
CLIENT |= {"participants": ((0, 1),), "eta_local": 0.1, "eta_global": 1.0, "local_steps": 1}
REGIME = ntkfl.kernel_regime(PROBLEM, SETUP)
RANDOM = ntkfl.random_rounds(PROBLEM, SETUP, participation=0.5)
TENSORS = {"x": torch.tensor(X), "y": torch.tensor(Y), "owner": OWNER, "clients": 2}
TENSORS |= {"x_test": torch.tensor(X), "y_test": torch.tensor(Y)}
STARTS: dict[str, Any] = {"initial_outputs": Y, "rounds": np.array([1, 2])}
POINTS: dict[str, Any] = {"x": X, "initial_prediction": Y}
CERTIFICATE = ntkfl.certify_any_order(PROBLEM, WEIGHTS)
CONVEX = ntkfl.kernel_regime(PROBLEM, SETUP, loss="squares")
WINDOWED = ntkfl.kernel_regime(PROBLEM, SETUP, method="fedavg", ima=exact_dynamics.MovingWindow(2))
TILED = ntkfl.kernel_regime(PROBLEM, SETUP, matrix_free=True)
SMOOTH = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
REGIMES = (REGIME, TILED, ntkfl.kernel_regime(PROBLEM, SETUP, method="fedavg"), RANDOM, WINDOWED, CONVEX)


def given_gram(function):
    """Returns a function that takes `gram`, together with the other arguments that DOORS lists."""
    return lambda gram, **more: function(PROBLEM, SETUP, gram, **more)


# Each row has a function or class of docs/reference, its arguments, and the names of its array arguments.
DOORS: list[tuple[str, Any, dict[str, Any]]] = [
    ("Problem", ntkfl.Problem, {"x": X, "y": Y, "owner": OWNER, "x_test": X, "y_test": Y}),
    ("Problem.of_outputs", PROBLEM.of_outputs, {"kernel": H}),
    ("Estimate", ntkfl.Estimate, {"value": Y, "error": Y**2}),
    ("Weights", lambda **weights: ntkfl.simulate(PROBLEM, SETUP, ntkfl.Weights(**weights)), WEIGHTS._asdict()),
    ("Weights", lambda **weights: ntkfl.certify_any_order(PROBLEM, ntkfl.Weights(**weights)), WEIGHTS._asdict()),
    ("Weights", lambda **weights: ntkfl.Weights(**weights).outputs(X), WEIGHTS._asdict()),
    ("Weights.outputs", WEIGHTS.outputs, {"x": X}),
    *(
        (f"{name}.{question}", getattr(certificate, question), {"x": X})
        for name, certificate in (
            ("AnyOrderCertificate", CERTIFICATE),
            ("LaterModels", CERTIFICATE),
            ("MethodCertificate", ntkfl.certify_method(PROBLEM, WEIGHTS, SETUP)),
        )
        for question in ("enclosure", "final", "inputs")
    ),
    ("certify_method", partial(ntkfl.certify_method, PROBLEM, WEIGHTS, SETUP, "scaffold"), {"remembered": Y}),
    ("MatrixFreeRegime.left_estimate", TILED.left_estimate, STARTS | {"initial_outputs": Y / 2}),
    ("MatrixFreeRegime.rounds_between", TILED.rounds_between, {"eps": 0.5, "initial_outputs": Y / 2}),
    *(
        (f"{name}.{question}", getattr(certificate, question), {"x": X})
        for name, certificate in (
            ("NetworkCertificate", ntkfl.certify_network(SMOOTH, None, PROBLEM)),
            ("LaterNetworks", ntkfl.certify_network(SMOOTH, None, PROBLEM)),
            ("FinalAnswers", ntkfl.certify_network(SMOOTH, None, PROBLEM)),
            ("RoundsCertificate", ntkfl.certify_rounds(SMOOTH, None, PROBLEM, SETUP)),
        )
        for question in ("enclosure", "final")
    ),
    (
        "certify_rounds",
        lambda shares, **params: ntkfl.certify_rounds(SMOOTH, params, PROBLEM, SETUP, shares=shares),
        {name: value.detach().numpy() for name, value in SMOOTH.named_parameters()}
        | {"shares": np.full(PROBLEM.n_clients, 0.5)},
    ),
    (
        "certify_rounds",
        partial(ntkfl.certify_rounds, SMOOTH, None, PROBLEM, SETUP, method="scaffold"),
        {"remembered": Y},
    ),
    (
        "certify_network",
        lambda **params: ntkfl.certify_network(SMOOTH, params, PROBLEM),
        {name: value.detach().numpy() for name, value in SMOOTH.named_parameters()},
    ),
    ("kernel_regime", given_gram(ntkfl.kernel_regime), {"gram": H}),
    ("random_rounds", given_gram(ntkfl.random_rounds), {"gram": H}),
    ("limit_curves", partial(limit_curves, PROBLEM), {"rounds": np.array([1, 2])}),
    (
        "several_limit_curves",
        lambda rounds: several_limit_curves(PROBLEM, rounds, [("fedavg", {})]),
        {"rounds": np.array([1, 2])},
    ),
    ("Tiles.of", partial(Tiles.of, gram.infinite), {"x": X}),
    ("nystroem", partial(gram.nystroem, landmarks=2), {"x": X}),
    ("Features.features", gram.Features(lambda x: x, X.shape[1]).features, {"x": X}),
    (
        "tune_outer",
        partial(tuned_outer.tune_outer, PROBLEM, rounds=1, local_steps=(1,), outer=("average",)),
        {"gram": H},
    ),
    ("krylov_floor", partial(tuned_outer.krylov_floor, RANDOM, 1), {"initial_outputs": Y}),
    ("private_rounds", given_gram(privacy.private_rounds), {"gram": H}),
    ("private_settings", partial(privacy.private_settings, PROBLEM), {"gram": H}),
    ("fastest", partial(fastest_method.fastest, PROBLEM, local_steps=(1,), eta_local=0.1, eps=0.9), {"gram": H}),
    ("least_condition", partial(fastest_method.least_condition, PROBLEM), {"gram": H}),
    ("warn_if_unstable", given_gram(exact_dynamics.warn_if_unstable), {"gram": H}),
    *(
        (f"{type(regime).__name__}.{name}", getattr(regime, name), arguments)
        for regime in REGIMES
        for name, arguments in {
            "outputs": STARTS,
            "residual": STARTS,
            "total_loss": STARTS,
            "movement": STARTS,
            "root_mean_square": STARTS,
            "deviation": STARTS,
            "predict": STARTS | POINTS,
            "outputs_and_predictions": STARTS | POINTS,
            "residual_estimate": STARTS,
            "movement_estimate": STARTS,
            "predict_estimate": STARTS | {"x": X},
            "rounds_to": {"eps": 0.5, "initial_outputs": Y},
            "stationary_mean_square": {"initial_outputs": Y},
            "covariance": {"rounds": 1, "initial_outputs": Y},
            "bound": {"rounds": 1, "initial_outputs": Y},
            "mean_loss": {"rounds": 1, "initial_outputs": Y},
            "local_outputs": {"t": 1, "initial_outputs": Y},
            "trajectory": {"initial_outputs": Y},
            "prediction_covariance": {"x": X, "rounds": 1, "initial_outputs": Y},
        }.items()
        if hasattr(regime, name)
    ),
    *(
        (f"{type(regime).__name__}.{name}", partial(getattr(regime, name), None, 1), {"cross_gram": H})
        for regime in REGIMES
        for name in ("predict", "outputs_and_predictions")
    ),
    (
        "RandomRegime.prediction_covariance",
        partial(RANDOM.prediction_covariance, None, 1),
        {"cross_gram": H, "own_gram": H},
    ),
    ("RandomRegime.square_variance", RANDOM.square_variance, STARTS),
    ("RandomRegime.chance_above", partial(RANDOM.chance_above, 1.0), STARTS),
    ("RandomRegime.sampled", partial(RANDOM.sampled, runs=2), STARTS),
    ("sampled_rounds", partial(ntkfl.sampled_rounds, PROBLEM, SETUP, runs=2, participation=0.5), STARTS | {"gram": H}),
    ("assign_owners", partial(partition.assign_owners, "dirichlet:1", clients=2), {"y": Y}),
    ("activations", gram.activations, {"x": X, "u": U}),
    ("doubtful", gram.doubtful, {"x": X, "u": U, "error": np.ones(5)}),
    ("safe_neurons", partial(gram.safe_neurons, radius=0.1), {"x": X, "u0": U}),
    *((f.__name__, f, {"x": X, "z": X + 1}) for f in (gram.angles, gram.infinite, gram.infinite_estimate)),
    *((f.__name__, f, {"x": X, "z": X + 1}) for f in (gram.deep, gram.deep_estimate)),
    *(
        (name, getattr(gram, name), {"x": X})
        for name in ("degenerate_pairs", "equal_rows", "require_distinct", "require_positive", "require_unparallel")
    ),
    ("initial", partial(gram.initial, width=4, seed=0), {"x": X}),
    *(
        (f.__name__, f, {"x": X[:, None, None], "z": X[:, None, None] + 1})
        for f in (gram.convolutional, gram.convolutional_estimate)
    ),
    ("empirical", partial(gram.empirical, network=MODEL, params=MODEL.initial(0)), {"x": X, "z": X + 1}),
    ("finite", gram.finite, {"x": X, "u": U, "w": U + 1, "z": X + 1}),
    ("finite_estimate", gram.finite_estimate, {"x": X, "u": U, "error": np.ones(5)}),
    ("jacobian_gram", gram.jacobian_gram, {"x": X, "u": U, "w": U + 1}),
    (
        "local_gram",
        gram.local_gram,
        {"x": X, "owner": OWNER, "u": U, "w": np.stack([U, U]), "neurons": np.ones((4, 5), bool)},
    ),
    ("largest_eigenvalue", gram.largest_eigenvalue, {"h": H}),
    ("smallest_eigenvalue", gram.smallest_eigenvalue, {"h": H}),
    ("TwoLayer", TwoLayer, {"hidden": U, "readout": SIGNS}),
    ("TwoLayer.outputs", NETWORKS[0].outputs, {"x": X}),
    ("TwoLayer.at", NETWORKS[0].at, {"vector": VECTORS[0]}),
    ("checked_inputs", partial(checked_inputs, NETWORKS[0]), {"x": X}),
    (
        "AffineTwoLayer",
        AffineTwoLayer,
        {"hidden": U, "readout": SIGNS, "bias": SIGNS, "output_bias": np.ones(1)},
    ),
    ("with_constant", with_constant, {"x": X}),
    (
        "from_arrays",
        lambda **arrays: network_files.from_arrays(arrays, "these", True),
        {"hidden": U, "readout": SIGNS},
    ),
    ("TorchNetwork.at", TORCH.at, {"vector": TORCH.vector()}),
    ("TorchNetwork.outputs", TORCH.outputs, {"x": X}),
    ("TorchNetwork.inputs", TORCH.inputs, {"x": X}),
    ("check_squares", partial(losses.check_squares, 1.0), {"y": Y}),
    ("checked_labels", partial(losses.checked_labels, losses.SQUARED, n=4, n_outputs=1), {"y": Y}),
    *(
        (name, partial(getattr(barrier, name), **TWO), LABELLED)
        for name in ("loss_barrier", "accuracy_barrier", "connectivity_loss", "largest_loss")
    ),
    ("largest_gap", partial(barrier.largest_gap, **TWO), {"x": X}),
    (
        "train_two_layer",
        partial(train_two_layer, steps=1, rate=0.1, network=draw_two_layer(5, 3, 2, RNG)),
        {"x": X, "y": np.arange(4) % 2},
    ),
    *(
        (name, partial(getattr(barrier, name), NETWORKS), LABELLED)
        for name in ("group_barrier", "group_accuracy_barrier")
    ),
    (
        "interpolation_curve",
        partial(curves.interpolation_curve, np.sum),
        {"first": Y, "second": Y + 1, "alphas": np.array([0.0, 1.0])},
    ),
    ("align", partial(alignment.align, **TWO, by="outputs"), {"x": X}),
    ("align_group", partial(alignment.align_group, NETWORKS, "outputs"), {"x": X}),
    ("unit_rows", partial(alignment.unit_rows, NETWORKS[0], "outputs"), {"x": X}),
    ("permuted", partial(alignment.permuted, NETWORKS[0]), {"permutation": np.arange(5)}),
    (
        "least_barrier",
        partial(least_barrier, **TWO, evaluations=1),
        LABELLED | {"start": np.arange(5)},
    ),
    ("align_torch", partial(torch_alignment.align_torch, TORCH, TORCH), {"x": X}),
    ("align_torch_group", partial(torch_alignment.align_torch_group, [TORCH, TORCH]), {"x": X}),
    ("unit_numbers", partial(torch_alignment.unit_numbers, TORCH), {"x": X}),
    ("Plane.coordinates", PLANE.coordinates, {"vector": VECTORS[0]}),
    (
        "plane_through",
        lambda **vectors: planes.plane_through(list(vectors.values())),
        {f"point {k}": vector for k, vector in enumerate(VECTORS)},
    ),
    ("plane_losses", partial(planes.plane_losses, NETWORKS), LABELLED | {"s": np.zeros(2), "t": np.ones(2)}),
    ("plane_grid", partial(planes.plane_grid, PLANE, np.sum), {"s": np.zeros(2), "t": np.ones(2)}),
    ("region_size", low_loss_region.region_size, LOSS | {"points": 10}),
    ("split_region_size", low_loss_region.split_region_size, LOSS | {"particles": 10, "runs": 2}),
    ("log_share", low_loss_region.log_share, LOSS | {"particles": 10}),
    (
        "error_factors",
        five_factors.error_factors,
        {"outputs": RNG.normal(size=(2, 2, 4)), "averaged": RNG.normal(size=(2, 4)), "y": Y, "owner": OWNER}
        | {"weights": np.full(2, 0.5)},
    ),
    (
        "mean_discrepancy",
        discrepancy.mean_discrepancy,
        {"own": H, "other": H, "cross": H},
    ),
    ("linear_cka", discrepancy.linear_cka, {"first": X, "second": X + 1}),
    ("QuadraticClient", quadratic_clients.QuadraticClient, {"hessian": np.eye(2), "minimiser": np.ones(2)}),
    ("LinearRounds", linear_rounds.LinearRounds, CLIENT),
    ("FederatedData", FederatedData, TENSORS),
]
# These arguments may be infinite, because a bound may be infinite.
INFINITE = {("Estimate", "value"), ("Estimate", "error"), ("doubtful", "error"), ("finite_estimate", "error")}
SAYS = {"h": "the matrix"}  # the words of a message for an argument, if they differ from its name

# This package makes or passes on the arrays of these functions. No user gives these arrays.
OURS = {
    "results": r"(Trajectory|(AnyOrder|Network)Certificate|(Drawn)?Displacements|PrivateRounds|SampledRounds|Plane"
    r"|Alignment|LeastBarrier)\.__init__",
    "results of torch networks": r"TorchAlignment\.__init__|moved|permuted (weights|orders)",
    "the round of a method": r"(Blocks|LinearRound|averaging|heavy_ball).*"
    r"|.*Regime\.(__init__|mapped|require_reachable)",
    "tiles": r"(Tiles|HeldGram)\.(__init__|block_error|cross|expansion)",
    "the kernel of a regime": r".*Regime\.kernel",
    "units of torch modules": r"(Numbers|Read|Matching|Pair|units_and_parts|units_of|weight_pairs|relaxed|along"
    r"|unit_products|distance)(\.__init__)?",
    "a protocol": r"Averageable\..*",
    "exact arithmetic of LinearRounds": r"LinearRounds\.server_mean",
    "what is written, not read": r"infinite.*\bout$",
    "a state of torch": r"TorchNetwork\.(__init__|evaluated)",
    "a case of conformance": r"(ConformanceCase|Answer)(\..*)?",
}
ARRAY = re.compile(r"\bndarray|ArrayLike|_SupportsArray|\bTensor\b")
# For functions of training, arguments that are tensors are left out, since training itself makes these tensors.
OF_NUMPY = re.compile(r"\bndarray|ArrayLike|_SupportsArray")


def spoilt(good):
    """Yields the argument turned into each kind of value that is no array of real numbers."""
    if isinstance(good, torch.Tensor):
        yield "complex tensor", good + 0j
        yield "no tensor", good.numpy()
        if good.is_floating_point():
            yield "NaN", torch.full_like(good, torch.nan)
        return
    first = np.zeros(good.shape, bool)
    first.flat[0] = True
    yield "masked", np.ma.array(good, mask=first)
    yield "complex tensor", torch.as_tensor(good) + 0j
    yield "numeric words", np.array([str(entry) for entry in good.flat], object).reshape(good.shape)
    yield "a list of words", good.astype(str).tolist()
    for value in (np.nan, np.inf):
        yield str(value), np.where(first, value, good)


@pytest.mark.quick_rows(4)
@pytest.mark.filterwarnings("error::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize(("name", "function", "arguments"), DOORS, ids=[door[0] for door in DOORS])
def test_what_is_no_array_of_real_numbers_is_refused_by_name(name, function, arguments):
    function(**arguments)  # With the unchanged arguments no error is raised.
    arrays = {key: value for key, value in arguments.items() if isinstance(value, np.ndarray | torch.Tensor)}
    assert arrays
    wrong = []
    for key, good in arrays.items():
        for kind, bad in spoilt(good):
            if kind == "inf" and (name, key) in INFINITE:
                continue
            try:
                function(**{**arguments, key: bad})
                wrong.append(f"{key}, {kind}: taken")
            except (ValueError, ArithmeticError) as error:
                if not re.search(rf"\b{re.escape(SAYS.get(key, key))}\b", str(error)):
                    wrong.append(f"{key}, {kind}: {error}")
            except Exception as error:
                wrong.append(f"{key}, {kind}: {type(error).__name__} {error}")
    assert not wrong, "\n".join(wrong)


def public_arrays():
    """Yields (function or class, argument) for everything that docs/reference names and that takes an array."""
    for page in ("ntkfl", "connectivity", "training"):
        text = (Path(__file__).parents[2] / "docs" / "reference" / f"{page}.md").read_text()
        for kind, target in re.findall(r"auto(module|class|function):: (\S+)", text):
            if kind == "module":
                module = import_module(target)
                named: list[str] = getattr(module, "__all__", None) or [
                    n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", None) == target
                ]
                members = {n: getattr(module, n) for n in named}
            else:
                path, name = target.rsplit(".", 1)
                members = {name: getattr(import_module(path), name)}
            for name, value in members.items():
                yield from takes_arrays(name, value, OF_NUMPY if page == "training" else ARRAY)


def takes_arrays(name, value, kinds):
    if inspect.isclass(value):
        methods = {k: getattr(value, k) for k in dir(value) if k[0] != "_" and inspect.isroutine(getattr(value, k))}
        named = {f"{name}.__init__": value} | {f"{name}.{k}": v for k, v in methods.items()}
    else:
        named = {name: value} if callable(value) else {}
    for name_of, function in named.items():
        try:
            parameters = inspect.signature(function).parameters
        except (ValueError, TypeError):  # C functions and cached values have no signature.
            continue
        for key, parameter in parameters.items():
            if kinds.search(re.sub(r"Callable\[.*\]", "", str(parameter.annotation))):
                yield name_of, key


def test_every_public_function_that_takes_an_array_is_among_the_doors():
    held = {(name, key) for name, _, arguments in DOORS for key in arguments}
    # These arguments hold several arrays.
    held |= {("plane_through", "vectors"), ("from_arrays", "arrays"), ("empirical", "params")}
    missing = {
        f"{name} {key}"
        for name, key in public_arrays()
        if (name.removesuffix(".__init__"), key) not in held
        and not any(re.fullmatch(pattern, name) or re.fullmatch(pattern, f"{name} {key}") for pattern in OURS.values())
    }
    assert not missing, f"take an array, and are in neither DOORS nor OURS: {sorted(missing)}"
