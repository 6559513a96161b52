"""Certificate reach: at which residual is a deep network, trained in all layers, first certified for any order?

A cell draws a network with the depth and the activation of its name, as `ntkfl.networks.wide` does. Then it tries to
certify the network, and trains it towards the labels of images until an attempt succeeds. Each time, training goes on
to the residual that the last attempt required. Training takes Gauss-Newton steps, theta + J' K^-1 (target - f), where J
is the Jacobian and K = J J'.

In NTK parametrisation the bounds on the curvature fall as m^(-1/2) while the kernel's smallest eigenvalue stays. So the
largest residual that is certified should grow as m^(1/2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from experiments.studies.answers import along, exponent, upper
from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.series import WIDTHS, places, power_line
from experiments.studies.study import SEED, Answer, Axis, Cells, Measured, Numbers, Point, Quantity, Study, seeds
from experiments.studies.study_data import DATA, on_data
from ntkfl import Problem, data
from ntkfl.smooth_networks.certificate import HALVINGS, NetworkCertificate, certify_layers
from ntkfl.smooth_networks.layers import ACTIVATIONS, IDENTITY, Layer
from ntkfl.smooth_networks.passes import Pass, passed
from ntkfl.smooth_networks.window import needed_residual

TEST = 500
IMAGES = "digits", "fashion-mnist"
LOOKS, STEPS = 4, 12  # the largest number of attempts, and of Gauss-Newton steps between two attempts
CLOSE = 0.02  # the largest relative distance of the residual after the steps from the wanted residual
# The next attempt aims at the share SHARE of the required residual, less the bound on the residual's rounding error.
# However large this bound is, the attempt aims at least at the share LEAST of the required residual.
SHARE = 0.98
LEAST = 0.02
ROUNDING = 1e-9  # a generous bound on the relative rounding error of a distance
SOURCE = "docs/proofs/smooth_networks.md#the-theorem"
KINKED = "relu"
POWER = 0.5  # the power of the width with which the certified residual grows


class Parts(NamedTuple):
    """What the name of a network says."""

    depth: int
    activation: str
    standard: bool  # whether the parametrisation is the standard one
    fixed: bool  # whether the readout is not trained


def parts(name: str) -> Parts:
    """What a name of the form "fc:DEPTH:ACTIVATION[:standard][:fixed]" says.

    Raises:
        ValueError: the name has another form.
    """
    form = re.fullmatch(r"fc:(\d+):(\w+)(:standard)?(:fixed)?", name)
    if form is None or int(form[1]) < 2 or form[2] not in ACTIVATIONS:
        raise ValueError(
            f"--networks has {name!r}; write it like fc:3:erf, fc:3:tanh:standard or fc:3:erf:fixed, whose readout is "
            f"not trained, with 2 layers or more and an activation of {', '.join(ACTIVATIONS)}"
        )
    return Parts(int(form[1]), form[2], form[3] is not None, form[4] is not None)


def named(word: str) -> str:
    """The word, if it is the name of a network.

    Raises:
        ValueError: the word names none.
    """
    parts(word)
    return word


def images(word: str) -> str:
    """The word, if it names a set of images.

    Raises:
        ValueError: the word names none.
    """
    if word not in IMAGES:
        raise ValueError(f"--data has {word!r}; it must be {' or '.join(IMAGES)}")
    return word


def drawn(name: str, width: int, features: int, seed: int) -> tuple[Layer, ...]:
    """Layers without biases, with Gaussian weights as in `ntkfl.networks.wide`.

    Layers with ReLU have the gain 2.
    """
    depth, activation, standard, fixed = parts(name)
    rng, gain = np.random.default_rng([seed, depth, width]), 2.0 if activation == KINKED else 1.0
    layers = []
    for k in range(depth):
        scale = 1.0 if k == 0 else np.sqrt((gain if k < depth - 1 else 1.0) / width)
        weight = rng.standard_normal((width if k < depth - 1 else 1, width if k else features))
        phi = ACTIVATIONS[activation] if k < depth - 1 else IDENTITY
        inside, weight = (1.0, scale * weight) if standard else (scale, weight)
        layers.append(Layer(f"{k + 1}", weight, None, float(inside), 0.0, phi, k < depth - 1 or not fixed))
    return tuple(layers)


def measure(point: Point) -> Measured:
    """The residual that a certificate requires before training, and numbers of the first certificate that holds.

    The latter are NaN if no certificate holds.
    """
    problem = data.BUILT_IN[point[DATA]](n=point["n"], seed=point[SEED], test=TEST)
    layers = drawn(point["network"], point["width"], problem.d, point[SEED])
    certificate = certify_layers(layers, problem)
    start = {"start": certificate.needed_residual or np.nan}
    for _ in range(LOOKS):
        wanted = certificate.needed_residual
        if certificate.certified or wanted is None:
            break
        closer = towards(layers, problem, max(SHARE * wanted - float(certificate.residual.error), LEAST * wanted))
        if closer is None:
            break
        layers, certificate = closer, certify_layers(closer, problem)
    nothing = dict.fromkeys((quantity.name for quantity in ON_DIGITS.quantities), np.nan)
    end: Measured = {"asked": certificate.needed_residual or np.nan}
    if certificate.certified:
        end = _certified(certificate, layers, problem)
    return {**nothing, **start, "known": float(certificate.residual.error), **end}


def _certified(certificate: NetworkCertificate, layers: tuple[Layer, ...], problem: Problem) -> Measured:
    residual = float(certificate.residual.hi)
    assert certificate.window is not None and problem.x_test is not None
    curvature, rho = certificate.start.curvature, certificate.window.ball
    return {
        "first": needed_residual(certificate.start, 1.0, None, HALVINGS, 4 * residual),
        "residual": residual,
        "distance": certificate.distance,
        "nearest": _to_fit(layers, problem),
        "fall": 1 - certificate.window_factor,
        "final": float((certificate.final(problem.x_test) != "open").mean()),
        "bend": float(np.linalg.norm(curvature.of_each(rho))),
        "turn": curvature.of_all(rho),
        "least": certificate.start.least_root,
    }


def towards(layers: tuple[Layer, ...], problem: Problem, residual: float) -> tuple[Layer, ...] | None:
    """The network after Gauss-Newton steps until its residual has about this norm; None if the steps fail.

    The outputs that the steps aim at are on the line from the present outputs to the labels.
    """
    done = passed(layers, problem.x)
    left = done.outputs.value - problem.y.reshape(problem.n, -1)
    target = problem.y.reshape(problem.n, -1) + residual * left / np.linalg.norm(left)
    for _ in range(STEPS):
        off = target - done.outputs.value
        if np.linalg.norm(off) <= CLOSE * residual:
            return layers
        layers = _added(layers, _pulled(done, np.linalg.solve(_kernel(done), off.reshape(-1))))
        done = passed(layers, problem.x)
    return None


def _to_fit(layers: tuple[Layer, ...], problem: Problem) -> float:
    """The distance |theta - theta*| to a fit theta* of the labels, by Newton's method.

    theta - theta* is in the span of the gradients at theta*.
    """
    at, moved = layers, [np.zeros_like(layer.weight) for layer in layers]
    for _ in range(STEPS // 2):
        done = passed(at, problem.x)
        off = problem.y.reshape(problem.n, -1) - done.outputs.value + _along(done, moved)
        moved = _pulled(done, np.linalg.solve(_kernel(done), off.reshape(-1)))
        at = _added(layers, moved)
    return float(np.sqrt(sum((step**2).sum() for step in moved)))


def _kernel(done: Pass) -> np.ndarray:
    return done.kernel([done.input_products(k) for k in range(len(done.layers))]).value


def _pulled(done: Pass, weights: np.ndarray) -> list[np.ndarray]:
    """J' times `weights`, as a matrix for each layer; the matrix of a layer that is not trained is 0."""
    per_output = weights.reshape(done.outputs.value.shape)
    return [
        layer.scale * np.einsum("ic,icm,ik->mk", per_output, before.value, h.value, optimize=True)
        if layer.trained
        else np.zeros_like(layer.weight)
        for layer, before, h in zip(done.layers, done.before, done.inputs, strict=True)
    ]


def _along(done: Pass, moved: list[np.ndarray]) -> np.ndarray:
    """The Jacobian J times a change of the network's weights, (n, C)."""
    return sum(
        layer.scale * np.einsum("icm,im->ic", before.value, h.value @ step.T)
        for layer, before, h, step in zip(done.layers, done.before, done.inputs, moved, strict=True)
    )


def _added(layers: tuple[Layer, ...], moved: list[np.ndarray]) -> tuple[Layer, ...]:
    return tuple(replace(layer, weight=layer.weight + step) for layer, step in zip(layers, moved, strict=True))


def summarise(cells: Cells) -> Iterable[Answer]:
    """Two answers about the certified networks.

    One answer is about the power of the width with which the first certified residual grows, for smooth networks in NTK
    parametrisation. The other answer is whether a fit lies within the distance that the certificate states.
    """
    smooth = [name for name in map(str, cells.network.to_numpy()) if _has_power(name)]
    widths = cells.width.to_numpy().astype(float)
    values = cells["first"].sel(network=smooth)
    logs = values.copy(data=np.log(values.to_numpy()))
    # only the slope is fitted, so cells are divided by their mean over the widths; NaN stays NaN
    scaled = values / np.exp(logs.mean("width"))
    certified, total = int(cells["first"].notnull().sum()), int(cells["start"].notnull().sum())
    ratio = (cells["first"] / cells["start"]).to_numpy()
    seen = ratio[np.isfinite(ratio)]
    note = f"{certified} of {total} cells certified"
    if len(seen):
        note += (
            f"; the residual estimated at the start was {1 / seen.max():.2g} to {1 / seen.min():.2g} times the first "
            "certified residual"
        )
    claim = "first certified |y - f| ~ m^(1/2), smooth networks in NTK parametrisation"
    yield exponent(claim, SOURCE, POWER, widths, along(scaled, "width"), axes=("width",), note=note)
    claim = "distance of the nearest fit <= the certified distance"
    yield upper(claim, SOURCE, cells["nearest"], cells["distance"], ROUNDING * cells["nearest"])


def charts(cells: Cells) -> Iterable[Chart]:
    """The first certified residual against the width, with a panel for each number of samples."""
    y, names = Label("first certified |y - f|", log=True), [str(name) for name in cells.network.to_numpy()]
    panels = []
    for n in cells.n.to_numpy():
        measured = [_series(name, cells["first"].sel(network=name, n=n)) for name in names]
        theory = [
            power_line(POWER, line.x, line.y[-1], of=line.name) for line in measured if line.x and _has_power(line.name)
        ]
        panels.append(Panel(f"n = {n}", WIDTHS, y, (*measured, *theory)))
    yield Chart(
        "certificate-reach",
        f"The mean of {cells.sizes[SEED]} seeds, one output. The largest residual that certifies, at kernel "
        "and curvature of a certified checkpoint; all layers are trained, in any order in which "
        "every window visits all samples equally often (v = 1).",
        "The residual that certifies grows with the width and falls with the depth and the number of samples.",
        tuple(panels),
    )


def _has_power(name: str) -> bool:
    """Whether theory gives a power of the width for this network: only for smooth networks in NTK parametrisation."""
    of = parts(name)
    return of.activation != KINKED and not of.standard


def _series(name: str, values: Numbers) -> Series:
    middle = values.mean(SEED).to_numpy()
    there = np.isfinite(middle)
    return Series(name, "measured", np.array(places(values, "width"))[there].tolist(), middle[there].tolist())


def _work(point: Point) -> float:
    depth, n, m = parts(point["network"]).depth, point["n"], point["width"]
    return (depth - 1) * (m**2 * (n + m) + n**2 * m)


ON_DIGITS = Study(
    name="certificate-reach",
    question="At which residual does a deep network, trained in all layers, first certify for any order of training?",
    source=SOURCE,
    axes=(
        Axis(
            "network",
            ("fc:2:erf", "fc:3:erf", "fc:4:erf", "fc:3:gelu", "fc:3:tanh", "fc:3:erf:standard", "fc:2:relu"),
            "or any other, fc:DEPTH:ACTIVATION[:standard][:fixed]",
            option="networks",
            read=named,
        ),
        Axis("n", (50, 200), "samples", least=2),
        Axis("width", (128, 256, 512, 1024), "neurons of a layer", option="widths", least=1),
        seeds(1, "of data and network"),
    ),
    quantities=(
        Quantity("start", "|y - f| that would be certified, as estimated before training"),
        Quantity("asked", "if the last attempt fails, the |y - f| that would be certified"),
        Quantity("known", "bound on the rounding error of |y - f| at the last attempt"),
        Quantity("first", "largest |y - f| that would be certified with the certified network's kernel and curvature"),
        Quantity("residual", "|y - f| of the certified network"),
        Quantity("distance", "distance within which a fit is certified"),
        Quantity("nearest", "distance to the nearest fit, by Newton steps"),
        Quantity("fall", "1 - window_factor"),
        Quantity("final", f"share of {TEST} test images whose class is final"),
        Quantity("bend", "(sum L_i^2)^(1/2) in the ball"),
        Quantity("turn", "L_J in the ball"),
        Quantity("least", "smallest singular value of J"),
    ),
    measure=measure,
    summarise=summarise,
    charts=charts,
    seconds=lambda point: 0.5 + 1.5e-9 * _work(point) + 5e-5 * point["n"] ** 2,
    megabytes=lambda point: 450 + 1e-4 * _work(point) / point["width"] + 2e-3 * point["n"] ** 2,
)

ANY_DATA = on_data(ON_DIGITS, IMAGES[0], "one output")
STUDY = replace(ANY_DATA, axes=(Axis(DATA, IMAGES[:1], "or fashion-mnist", read=images), *ON_DIGITS.axes))
