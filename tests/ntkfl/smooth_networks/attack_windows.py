"""Trains certified small networks on in windows that are made to hurt, and says how near the claims they come.

`python tests/ntkfl/smooth_networks/attack_windows.py --networks 200 --windows 2000` prints the guide's numbers.
"""

import argparse
from collections.abc import Iterator

import numpy as np
import torch
from small_networks import network, outputs, trained

from ntkfl import Problem
from ntkfl.smooth_networks.adversary import WindowAttack, Worst, attack_network
from ntkfl.smooth_networks.certificate import NetworkCertificate, certify_layers
from ntkfl.smooth_networks.layers import SMOOTH, Layer
from ntkfl.smooth_networks.passes import passed

SHARE = 0.98  # share of the residual that certifies
NAMES = [name for name in SMOOTH if name != "identity"]


def small(seed: int) -> tuple[tuple[Layer, ...], Problem, NetworkCertificate]:
    """A certified network of two to four layers, biases too, on two to four samples."""
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
    """The largest L_i over the largest norm of a Hessian of that output: power iteration, at points of the ball."""
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


def attacked(seeds: range, windows: int, points: int) -> Iterator[tuple[int, int, bool, WindowAttack, float]]:
    """For each seed its depth, whether it certified, and the result of the windows."""
    for seed in seeds:
        layers, problem, certificate = small(seed)
        run = WindowAttack(None, 0, Worst())
        sharp = np.nan
        if certificate.certified:
            run = attack_network(certificate, trials=windows, seed=seed)
            sharp = sharpness(layers, problem.x, certificate, points) if points else np.nan
        yield seed, len(layers), certificate.certified, run, sharp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument("--windows", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first network")
    parser.add_argument("--points", type=int, default=3, help="of the ball at which Hessians are measured; 0 for none")
    options = parser.parse_args()
    rows = []
    for row in attacked(range(options.seed, options.seed + options.networks), options.windows, options.points):
        rows.append(row)
        print(*row, flush=True)
    kept = [row for row in rows if row[2]]
    print(f"{len(kept)} of {len(rows)} networks certified, {sum(row[3].windows for row in kept)} windows")
    for name in ("fall", "factor", "distance", "reach", "outputs"):
        values = [getattr(row[3].worst, name) for row in kept]
        print(
            f"{name}: at most {max(values):.4f} of the claim, {sum(value > 1 for value in values)} networks beyond it"
        )
    for depth in sorted({row[1] for row in kept}):
        sharp = [row[4] for row in kept if row[1] == depth]
        print(
            f"{depth} layers ({len(sharp)}): L_i over the Hessian's norm {np.min(sharp):.3g} to {np.max(sharp):.3g},"
            f" median {np.median(sharp):.3g}"
        )


if __name__ == "__main__":
    main()
