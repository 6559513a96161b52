"""Trains certified small networks on in windows that are made to hurt, and says how near the claims they come.

`python tests/ntkfl/smooth_networks/attack_windows.py --networks 200 --windows 2000` prints what the guide quotes.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from small_networks import network, outputs, trained

from ntkfl import Problem
from ntkfl.smooth_networks.certificate import NetworkCertificate, certify_layers
from ntkfl.smooth_networks.layers import SMOOTH, Layer
from ntkfl.smooth_networks.passes import passed

ROUNDING = 1e-13  # of the parameters' norm: what float64 leaves open of a distance
RUN = 20  # windows from the checkpoint on, then again from there
PROBES, NEWTON = 5, 4
CLEAR = 1e4  # roundings: distances whose ratio can be told
SHARE = 0.98  # of the residual that certifies
NAMES = [name for name in SMOOTH if name != "identity"]
Step = tuple[np.ndarray, float]  # samples and the share of the longest step


@dataclass
class Worst:
    """The largest quotients of what windows did by what was claimed; above 1 the claim is false."""

    fall: float = 0.0  # what is claimed that this squared distance falls by, over what it fell, without its rounding
    factor: float = 0.0  # squared distance to the fit of its start after a window, over that before
    distance: float = 0.0  # of the checkpoint to its nearest fit
    reach: float = 0.0  # of any model from the checkpoint
    outputs: float = 0.0  # how far probes' outputs moved
    windows: int = 0

    def update(self, **quotients: float) -> None:
        for name, value in quotients.items():
            setattr(self, name, max(getattr(self, name), float(value)))


@dataclass
class Run:
    """Plain numpy training of a certified network: another implementation than that of the certificate."""

    layers: tuple[Layer, ...]
    problem: Problem
    certificate: NetworkCertificate
    rng: np.random.Generator
    worst: Worst = field(default_factory=Worst)
    # what breaks a rule: steps and the server's step, times those allowed, and how many samples are never visited
    longer: float = 1.0
    server: float = 1.0
    left_out: int = 0

    def __post_init__(self) -> None:
        self.start = trained(self.layers).numpy()
        self.off = ROUNDING * np.linalg.norm(self.start)
        self.probes = self.rng.standard_normal((PROBES, self.problem.d))
        self.claimed = self.certificate.enclosure(self.probes)
        self.worst.update(distance=(self.to_fit(self.start)[0] - self.off) / self.certificate.distance)

    def forward(self, theta: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, list]:
        h, kept, at = x, [], 0
        for layer in self.layers:
            weight = theta[at : at + layer.weight.size].reshape(layer.weight.shape)
            at += weight.size
            bias = theta[at : at + len(weight)]
            at += len(weight)
            z = layer.scale * (h @ weight.T) + layer.bias_scale * bias
            kept.append((h, z, weight))
            h = layer.activation.function(z)
        return h[:, 0], kept

    def backward(self, kept: list, b: np.ndarray, together: bool) -> np.ndarray:
        """The gradients of the outputs, each times its number b: their sum, or one a row."""
        rows, parts, b = len(b), [], b[:, None]
        for layer, (h, z, weight) in zip(self.layers[::-1], kept[::-1], strict=True):
            b = b * layer.activation.derivative(z)
            if together:
                parts += [layer.bias_scale * b.sum(0), layer.scale * (b.T @ h).reshape(-1)]
            else:
                parts += [layer.bias_scale * b, layer.scale * (b[:, :, None] * h[:, None]).reshape(rows, -1)]
            b = layer.scale * (b @ weight)
        return np.concatenate(parts[::-1], axis=-1)

    def to_fit(self, theta: np.ndarray, guess: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """|theta - theta*| and theta*, a fit from which theta differs along the gradients there (Newton)."""
        at, ones = theta if guess is None else guess, np.ones(self.problem.n)
        for _ in range(NEWTON):
            f, kept = self.forward(at, self.problem.x)
            j = self.backward(kept, ones, together=False)
            at = theta + j.T @ np.linalg.solve(j @ j.T, self.problem.y - f + j @ (at - theta))
        return float(np.linalg.norm(at - theta)), at

    def trained_on(self, theta: np.ndarray, steps: list[Step]) -> np.ndarray:
        """The last of the models of these steps; all of them are held to the reach and to the outputs."""
        for batch, share in steps:
            f, kept = self.forward(theta, self.problem.x[batch])
            theta = theta + share * self.longer * self.certificate.step_limit * self.backward(
                kept, self.problem.y[batch] - f, together=True
            )
            self.held(theta)
        return theta

    def held(self, theta: np.ndarray) -> None:
        now, _ = self.forward(theta, self.probes)
        moved = np.abs(now - self.claimed.value) / self.claimed.error
        away = (np.linalg.norm(theta - self.start) - self.off) / self.certificate.reach
        self.worst.update(reach=float(away), outputs=float(moved.max()))

    def orders(self, theta: np.ndarray, mode: str) -> list[Step]:
        """A window: each sample once, or in so many small steps that sum to the longest."""
        n = self.problem.n - self.left_out
        left = np.abs(self.problem.y - self.forward(theta, self.problem.x)[0])[:n]
        by = {"largest": np.argsort(-left), "smallest": np.argsort(left)}.get(mode, self.rng.permutation(n))
        size = 1 if mode in ("largest", "smallest") else int(self.rng.integers(1, n + 1))
        batches = np.split(by, range(size, n, size))
        pieces = int(self.rng.integers(1, 4)) if mode == "pieces" else 1
        steps = [(batch, 1 / pieces) for batch in batches for _ in range(pieces)]
        return [steps[k] for k in self.rng.permutation(len(steps))] if mode == "pieces" else steps

    def changed(self, steps: list[Step]) -> list[Step]:
        """Two steps of a window exchanged."""
        first, second = self.rng.integers(len(steps), size=2)
        other = list(steps)
        other[first], other[second] = steps[second], steps[first]
        return other

    def windows(self, count: int) -> None:
        """So many windows, in runs from the checkpoint on; climbing runs take the worst of some windows tried."""
        modes = "random", "largest", "smallest", "pieces", "clients", "slow", "far"
        runs = 0
        while self.worst.windows < count:
            theta, mode = self.start, modes[runs % len(modes)]
            runs += 1
            before, fit = self.to_fit(theta)
            for _ in range(RUN):
                if before < CLEAR * self.off or self.worst.windows >= count:
                    break
                theta, before, fit = self.window(theta, before, fit, mode)

    def window(
        self, theta: np.ndarray, before: float, fit: np.ndarray, mode: str
    ) -> tuple[np.ndarray, float, np.ndarray]:
        share, tried = 1.0, list[np.ndarray]()
        if mode == "clients":  # each with its part of the samples, and their mean
            order = self.rng.permutation(self.problem.n - self.left_out)
            cut, share = int(self.rng.integers(1, max(len(order), 2))), 0.5
            ends = [self.trained_on(theta, [(part, 1.0)]) for part in (order[:cut], order[cut:])]
            tried.append(theta + self.server * (sum(ends) / 2 - theta))
        else:
            steps = self.orders(theta, mode)
            tried.append(self.trained_on(theta, steps))
            for _ in range(4 if mode in ("slow", "far") else 0):
                steps = self.changed(steps)
                tried.append(self.trained_on(theta, steps))
        allowed = 1 - share * (1 - self.certificate.window_factor)
        for end in tried:
            self.held(end)
            after = float(np.linalg.norm(end - fit))  # to the same fit: no nearer than the nearest one
            self.worst.update(factor=((after - self.off) / (before + self.off)) ** 2 / allowed)
            self.worst.update(fall=(1 - allowed) / max(1 - (after / before) ** 2, 1e-300))
        self.worst.windows += len(tried)
        end = max(tried, key=lambda model: float(np.linalg.norm(model - (fit if mode == "slow" else self.start))))
        return end, *self.to_fit(end, fit)


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


def attacked(seeds: range, windows: int, points: int) -> Iterator[tuple[int, int, bool, Worst, float]]:
    """Of each seed its depth, whether it certified, and what windows did."""
    for seed in seeds:
        layers, problem, certificate = small(seed)
        run = Worst()
        sharp = np.nan
        if certificate.certified:
            trial = Run(layers, problem, certificate, np.random.default_rng([seed, 42]))
            trial.windows(windows)
            run = trial.worst
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
        values = [getattr(row[3], name) for row in kept]
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
