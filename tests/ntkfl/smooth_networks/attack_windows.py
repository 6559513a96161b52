"""Trains certified small networks adversarially, and says how near the training comes to the certificates' claims.

A window is a part of training in which every sample is used. attack_windows.jsonl has a row for each network; *Is my
deep network's training safe?* quotes the rows. This script measures missing rows, stores each at once, and prints the
guide's numbers:

    python tests/ntkfl/smooth_networks/attack_windows.py --networks 200
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from small_networks import network, outputs, trained

from ntkfl import Problem
from ntkfl.smooth_networks.adversary import attack_network
from ntkfl.smooth_networks.certificate import NetworkCertificate, certify_layers
from ntkfl.smooth_networks.layers import SMOOTH, Layer
from ntkfl.smooth_networks.passes import passed

ROWS = Path(__file__).with_suffix(".jsonl")
SHARE = 0.98  # the initial residual, as a share of the largest residual with which the network is certified
# the number of windows for each network, and of points of the ball at which Hessians are measured
WINDOWS, POINTS = 2000, 3
NAMES = [name for name in SMOOTH if name != "identity"]


def small(seed: int) -> tuple[tuple[Layer, ...], Problem, NetworkCertificate]:
    """Returns a certified network of two to four layers with biases, on two to four samples."""
    rng = np.random.default_rng([seed, 41])
    depth, width, n = int(rng.integers(2, 5)), int(rng.integers(8, 41)), int(rng.integers(2, 5))
    layers = network(seed, [4] + [width] * (depth - 1) + [1], list(rng.choice(NAMES, depth - 1)))
    x = rng.standard_normal((n, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    done = passed(layers, x)
    f = done.outputs.value[:, 0]
    kernel = done.kernel([done.input_products(k) for k in range(depth)]).value
    slowest = np.linalg.eigh(kernel)[1][:, 0]
    needed = certify_layers(layers, Problem(x, f + slowest)).needed_residual or 0.0
    problem = Problem(x, f + SHARE * needed * slowest)
    return layers, problem, certify_layers(layers, problem)


def sharpness(layers: tuple[Layer, ...], x: np.ndarray, certificate: NetworkCertificate, points: int) -> float:
    """Returns the largest ratio, over samples i, of the bound L_i to the largest Hessian norm that was found.

    L_i bounds the norm of the Hessian of the output on sample i in the ball. The norms are found by power iteration at
    points of the ball.
    """
    assert certificate.window is not None
    theta, rho = trained(layers), certificate.window.ball
    bounds, ratio = certificate.start.curvature.of_each(rho), 0.0
    rng = np.random.default_rng(0)
    for i, bound in enumerate(bounds):

        def one(t: torch.Tensor, i: int = i) -> torch.Tensor:
            return outputs(layers, t, x[i : i + 1])[0]

        top = 0.0
        for k in range(points):
            away = torch.tensor(rng.standard_normal(len(theta)))
            at = theta + (rho * away / away.norm() if k else 0)
            v = torch.tensor(rng.standard_normal(len(theta)))
            for _ in range(40):
                v = v / v.norm()
                v = torch.func.vjp(torch.func.grad(one), at)[1](v)[0]
            top = max(top, float(v.norm()))
        ratio = max(ratio, float(bound) / top)
        assert bound >= top, (bound, top)
    return ratio


def attacked(seed: int) -> dict[str, Any]:
    """Returns the row of one network: its depth, whether it is certified, and how near windows came to its claims."""
    layers, problem, certificate = small(seed)
    row = {"seed": seed, "layers": len(layers), "certified": certificate.certified}
    if not certificate.certified:
        return row
    row |= attack_network(certificate, trials=WINDOWS, seed=seed).to_dict()
    return row | {"sharpness": sharpness(layers, problem.x, certificate, POINTS)}


def kept() -> list[dict[str, Any]]:
    """Returns the rows that were measured, sorted by seed."""
    lines = ROWS.read_text(encoding="utf-8").splitlines() if ROWS.exists() else []
    return sorted(map(json.loads, lines), key=lambda row: row["seed"])


def quoted(rows: list[dict[str, Any]]) -> list[str]:
    """Returns the guide's sentences with numbers from the rows, which are rounded to the side that claims less."""
    worst = {name: max(row[name] for row in rows) for name in ("fall", "distance", "reach", "outputs")}
    depths = {}
    for depth in (2, 3, 4):
        sharp = [row["sharpness"] for row in rows if row["layers"] == depth]
        depths[depth] = _digits(min(sharp), False), _digits(max(sharp), True), f"{np.median(sharp):.2g}"
    return [
        f"trained {len(rows)} certified networks further",
        f"Every window lowered the squared distance to the fit by at least {_digits(1 / worst['fall'], False)} times "
        "the claimed amount. The distance to the fit that Newton steps found was at most "
        f"{_digits(worst['distance'], True)} of the certified distance. Models moved by at most "
        f"{_digits(worst['reach'], True)} of the stated distance, and outputs by at most "
        f"{_digits(worst['outputs'], True)} of what their intervals allow.",
        "With two layers the bound is {} to {} times that norm (median {}), with three layers {} to {} times (median "
        "{}), and with four layers {} to {} times (median {}).".format(*depths[2], *depths[3], *depths[4]),
    ]


def _digits(value: float, up: bool) -> str:
    """Returns two digits of a number, rounded up or down."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    near = (math.ceil if up else math.floor)(value / unit) * unit
    return f"{near:.2g}".removeprefix("0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=200)
    seeds = range(parser.parse_args().networks)
    for seed in sorted({*seeds} - {row["seed"] for row in kept()}):
        rows = sorted([*kept(), attacked(seed)], key=lambda row: row["seed"])
        ROWS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(*quoted(kept()), sep="\n")


if __name__ == "__main__":
    main()
