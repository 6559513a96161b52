"""A search for windows of training that contradict what is certified for a smooth network.

A window is a sequence of steps as in the theorem of `ntkfl.smooth_networks`. A fit is a vector of parameters with which
the network fits every label.

Networks, gradients and fits are computed in plain numpy without error bounds, independently of the code of the
certificate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ntkfl import interruption
from ntkfl.any_order.targets import nearest_in_box
from ntkfl.memory import require
from ntkfl.messages import require_number, require_size
from ntkfl.smooth_networks.certificate import NetworkCertificate
from ntkfl.smooth_networks.float_network import FloatNetwork

ROUNDING = 1e-13  # assumed error of a distance in float64, relative to the larger of |theta| and |y| / sigma_min(J)
RUN = 20  # number of windows of a run; every run starts at the checkpoint
PROBES, NEWTON = 5, 4
LEAST_DISTANCE = 1e4  # least distance whose change is measured, as a multiple of the error of a distance
MODES = "random", "largest", "smallest", "pieces", "clients", "slow", "far"
CLAIMS = {
    "factor": "how a window lowers the squared distance to the fits",
    "distance": "the distance to a fit",
    "reach": "how far models go",
    "outputs": "how far outputs move",
}


class Step(NamedTuple):
    """A step of a window."""

    samples: np.ndarray
    share: float  # the size of the step as a share of the longest allowed step


@dataclass
class Worst:
    """The largest quotient of measured and claimed value over all windows, for each claim; a quotient above 1
    contradicts the claim.
    """

    # claimed decrease of the squared distance to the fits, divided by the measured decrease, without allowance for
    # rounding
    fall: float = 0.0
    factor: float = 0.0  # squared distance to the fits after a window, divided by the squared distance before
    distance: float = 0.0  # distance of the checkpoint from its nearest fit
    reach: float = 0.0  # largest distance of a model from the checkpoint
    outputs: float = 0.0  # largest change of the outputs at the random inputs `Windows.probes`

    def update(self, **quotients: float) -> None:
        """Keep the larger value of each quotient; a NaN counts as a contradiction."""
        for name, value in quotients.items():
            setattr(self, name, float("inf") if np.isnan(value) else max(getattr(self, name), float(value)))


@dataclass(frozen=True)
class WindowAttack:
    """The result of an adversary's search.

    Args:
        broken: the claim that was contradicted: `factor` of a window, `distance`, `reach` or `outputs`; None if no
            claim was.
        windows: number of windows tried.
        worst: for each claim the largest quotient of measured and claimed value; above 1 it contradicts the claim.
    """

    broken: str | None
    windows: int
    worst: Worst

    def to_dict(self) -> dict[str, Any]:
        """All fields in a form that JSON allows; infinity and NaN become None."""
        quotients = {name: value if np.isfinite(value) else None for name, value in vars(self.worst).items()}
        return {"broken": self.broken, "windows": self.windows} | quotients

    def __str__(self) -> str:
        if self.broken is not None:
            by = getattr(self.worst, self.broken)
            return (
                f"an adversary broke the claim of {CLAIMS[self.broken]}, by the factor {by:.3g} ({self.windows} "
                "windows looked at)"
            )
        if not self.windows:
            return (
                "an adversary looked at no window: the distance to a fit is too small for float64 to tell windows apart"
            )
        return (
            f"an adversary looked at {self.windows} windows: each lowered the squared distance "
            f"{1 / self.worst.fall:.3g} times as much as is claimed or more, models went {self.worst.reach:.2g} of the "
            "reach at most"
        )


def attack_network(
    certificate: NetworkCertificate,
    *,
    trials: int = 2000,
    seed: int = 0,
    longer: float = 1.0,
    server: float = 1.0,
    visits: float | None = None,
    left_out: int = 0,
) -> WindowAttack:
    """Search for windows of training that contradict the claims of a certificate of `certify_network`.

    Each run of windows starts at the checkpoint. There are several kinds of runs. The batches are in random order, or
    samples with the largest or the smallest residuals come first, or each step is split into smaller steps, or two
    clients train and their models are averaged. In some runs several orders are tried, and the order that ends farthest
    from the fit or from the checkpoint is taken. Newton steps find the fits to which distances are measured.

    Args:
        certificate: a certificate that holds.
        trials: the largest number of windows to try; the search ends with the first window that contradicts a claim;
            default 2000.
        seed: the seed of all draws; default 0.
        longer: factor on the step sizes, default 1; a value above 1 is outside the theorem's conditions.
        server: the server's step on a mean, default 1; a value above 1 is outside the theorem's conditions.
        visits: the largest ratio of two samples' sums of step sizes in a window; default: the certificate's ratio; a
            larger ratio is outside the theorem's conditions.
        left_out: number of samples that no window uses, default 0; a value above 0 is outside the theorem's conditions.

    Raises:
        ValueError: a certificate that does not hold, trials below 1, factors that are not positive, visits below 1, all
            samples left out. TooLittleMemory: the gradients of all outputs do not fit.
    """
    if not certificate.certified:
        raise ValueError(f"nothing is claimed that could be broken, as the network is not certified: {certificate.why}")
    require_size("trials", trials)
    require_number("longer", longer, "be positive")
    require_number("server", server, "be positive")
    most = certificate.visits if visits is None else visits
    require_number("visits", most, "be 1 or more, and finite")
    require_size("left_out", left_out, least=0)
    if left_out >= certificate.problem.n:
        raise ValueError(f"left_out is {left_out}; of {certificate.problem.n} samples one must be visited")
    attack = Windows(certificate, np.random.default_rng([seed, 42]), longer, server, most, left_out)
    attack.run(trials)
    return WindowAttack(attack.broken(), attack.windows, attack.worst)


@dataclass
class Windows:
    """Training of a certified network in plain numpy, window after window."""

    certificate: NetworkCertificate
    rng: np.random.Generator
    # ways to leave the theorem's conditions: factors on the step sizes and on the server's step, and the number of
    # samples that are never used
    longer: float = 1.0
    server: float = 1.0
    visits: float = 1.0
    left_out: int = 0
    worst: Worst = field(default_factory=Worst)
    windows: int = 0

    def __post_init__(self) -> None:
        self.problem = self.certificate.problem
        self.loss, self.kept = self.certificate.loss, self.certificate.kept
        self.network = FloatNetwork(self.certificate.start.curvature.layers)
        self.labels = self.problem.y.reshape(self.problem.n, -1)
        assert self.loss.minimisers is not None
        self.low, self.high = (end[self.kept].reshape(-1) for end in self.loss.minimisers(self.labels))
        self.start = self.network.start()
        require("the adversary", lambda n: 24.0 * n * self.labels.shape[1] * len(self.start), n=self.problem.n)
        by_labels = float(np.linalg.norm(self.labels)) / self.certificate.start.least_root
        self.off = ROUNDING * max(float(np.linalg.norm(self.start)), by_labels)
        self.probes = self.rng.standard_normal((PROBES, self.problem.d))
        self.claimed = self.certificate.enclosure(self.probes)
        self.worst.update(distance=(self.to_fit(self.start)[0] - self.off) / self.certificate.distance)

    def broken(self) -> str | None:
        """The claim that was contradicted, or None."""
        return next((name for name in CLAIMS if getattr(self.worst, name) > 1), None)

    def to_fit(self, theta: np.ndarray, guess: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """|theta - theta*| and the fit theta*, by Newton's method; theta - theta* is in the span of the gradients at
        theta*.
        """
        at = theta if guess is None else guess
        for _ in range(NEWTON):
            f, j = self.network.jacobian(at, self.problem.x[self.kept])
            kernel, here = j @ j.T, f - j @ (at - theta)
            at = theta + j.T @ np.linalg.solve(kernel, nearest_in_box(kernel, self.low - here, self.high - here))
        return float(np.linalg.norm(at - theta)), at

    def trained_on(self, theta: np.ndarray, steps: list[Step]) -> np.ndarray:
        """The model after these steps.

        After every step the model is compared with the claims about the reach and the outputs.
        """
        for samples, share in steps:
            interruption.check()
            f, kept = self.network.forward(theta, self.problem.x[samples])
            theta = theta + share * self.longer * self.certificate.step_limit * self.network.backward(
                kept, -self.loss.slope(f, self.labels[samples]), together=True
            )
            self.held(theta)
        return theta

    def held(self, theta: np.ndarray) -> None:
        """Compare a model with the claimed reach and the claimed intervals of outputs."""
        now, _ = self.network.forward(theta, self.probes)
        moved = np.abs(now.reshape(self.claimed.value.shape) - self.claimed.value) / self.claimed.error
        away = (np.linalg.norm(theta - self.start) - self.off) / self.certificate.reach
        self.worst.update(reach=float(away), outputs=float(moved.max()))

    def orders(self, theta: np.ndarray, mode: str) -> list[Step]:
        """The steps of a window: for each sample one step of the largest size, or small steps that sum to it; some
        samples have more steps.
        """
        n = self.problem.n - self.left_out
        left = np.linalg.norm(self.loss.slope(self.network.forward(theta, self.problem.x)[0], self.labels), axis=1)[:n]
        by = {"largest": np.argsort(-left), "smallest": np.argsort(left)}.get(mode, self.rng.permutation(n))
        size = 1 if mode in ("largest", "smallest") else int(self.rng.integers(1, n + 1))
        batches = np.split(by, range(size, n, size))
        pieces = int(self.rng.integers(1, 4)) if mode == "pieces" else 1
        steps = [Step(batch, 1 / pieces) for batch in batches for _ in range(pieces)]
        if mode == "pieces":
            steps = [steps[k] for k in self.rng.permutation(len(steps))]
        if self.visits > 1:  # one sample is used again and again, which may lead away from a fit of all samples
            whole, part = divmod(self.visits - 1, 1)
            one = np.argsort(left)[:1]
            again = [Step(one, 1.0)] * int(whole) + ([Step(one, part)] if part else [])
            steps = again + steps if self.rng.random() < 0.5 else steps + again
        return steps

    def changed(self, steps: list[Step]) -> list[Step]:
        """The same steps, with two of them exchanged."""
        first, second = self.rng.integers(len(steps), size=2)
        other = list(steps)
        other[first], other[second] = steps[second], steps[first]
        return other

    def run(self, count: int) -> None:
        """Train `count` windows, in runs from the checkpoint.

        The modes "slow" and "far" try five windows each time and take the worst.
        """
        runs = 0
        while self.windows < count and self.broken() is None:
            theta, mode = self.start, MODES[runs % len(MODES)]
            runs += 1
            before, fit = self.to_fit(theta)
            for _ in range(RUN):
                interruption.check()
                if before < LEAST_DISTANCE * self.off or self.windows >= count or self.broken() is not None:
                    break
                theta, before, fit = self.window(theta, before, fit, mode)
            else:
                continue
            if theta is self.start:  # the checkpoint is too near to a fit for a check of windows in float64
                return

    def window(
        self, theta: np.ndarray, before: float, fit: np.ndarray, mode: str
    ) -> tuple[np.ndarray, float, np.ndarray]:
        """The model after the worst of some windows, the distance of this model to its nearest fit, and that fit."""
        share, tried = 1.0, list[np.ndarray]()
        if mode == "clients":  # two clients train on parts of the samples; then the mean of their models is taken
            order = self.rng.permutation(self.problem.n - self.left_out)
            cut, share = int(self.rng.integers(1, max(len(order), 2))), 0.5
            ends = [self.trained_on(theta, [Step(part, 1.0)]) for part in (order[:cut], order[cut:]) if len(part)]
            mean = theta + sum((end - theta for end in ends), np.zeros_like(theta)) / 2
            tried.append(theta + self.server * (mean - theta))
        else:
            steps = self.orders(theta, mode)
            tried.append(self.trained_on(theta, steps))
            for _ in range(4 if mode in ("slow", "far") else 0):
                steps = self.changed(steps)
                tried.append(self.trained_on(theta, steps))
        allowed = 1 - share * (1 - self.certificate.window_factor)
        for end in tried:
            self.held(end)
            after = float(np.linalg.norm(end - fit))  # an upper bound of the distance of `end` to its nearest fit
            if ((after - self.off) / (before + self.off)) ** 2 > allowed:
                after = min(after, self.to_fit(end, fit)[0])
            self.worst.update(factor=((after - self.off) / (before + self.off)) ** 2 / allowed)
            self.worst.update(fall=(1 - allowed) / max(1 - (after / before) ** 2, 1e-300))
        self.windows += len(tried)
        origin = fit if mode == "slow" else self.start
        end = max(tried, key=lambda model: float(np.linalg.norm(model - origin)))
        return end, *self.to_fit(end, fit)
