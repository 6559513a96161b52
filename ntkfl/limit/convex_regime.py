"""Algorithm 1 on a convex loss at infinite width: its exact recursion in the outputs, and a bound of its losses.

There are N clients, K local steps in a round, and T rounds; eta_l and eta_g are the step sizes of the clients and of
the server. F_c is the sum of the losses of client c's samples, and F is the sum over all samples; both are written as
functions of the weights w or of the outputs f. f_0 are the outputs before training, H is the Gram matrix, and H_cc is
the block of client c. Let l >= 0 be convex with |l'|^2 <= 2 b l, and let L = b max_c |H_cc|, eta_l < 1/L and eta_g <=
1. A local step of client c from w to w+ satisfies, for every u,

    |w+ - u|^2 <= |w - u|^2 - 2 eta_l (1 - eta_l L) F_c(w) + 2 eta_l F_c(u),

because F_c is convex and |grad F_c|^2 <= |H_cc| |l'|^2 <= 2 L F_c. The server's step is a convex combination of the
models before and after the local steps, so the sum over K steps, N clients and T rounds telescopes. Hence the mean,
over rounds and steps, of the sum of the clients' losses is at most

    min_alpha [N alpha^T H alpha / (2 eta_l eta_g K T) + F(f_0 + H alpha)] / (1 - eta_l L)

for all K, N and partitions. The minimum over alpha is kernel regression with the same loss and the ridge N / (eta_l
eta_g K T).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ntkfl import interruption
from ntkfl.limit.convex_loss import ConvexLoss
from ntkfl.limit.infinite_width import Regime, checked_rounds

NEWTON = 100  # largest number of Newton steps
PRECISE = 1e-13  # the search ends when a step would lower the objective by less than this share of the objective


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ConvexRegime(Regime):
    """Algorithm 1 on the sum of a convex loss in the kernel regime; made by `kernel_regime(..., loss=...)`.

    The outputs at the samples are f = f_0 + H alpha. A client takes K steps f_c <- f_c - eta_l H_cc l'(f_c) of its own
    copy. The server adds eta_g / N times the clients' coefficients, -eta_l sum_k l', to alpha. Rounds are run one by
    one, in float64.

    Args:
        loss: the loss of an output and its label.

    Source: docs/proofs/convex_loss.md#the-recursion and, for `bound`, docs/proofs/convex_loss.md#the-mean-loss.
    """

    method = "fl-ntk"
    loss: ConvexLoss
    no_answer: ClassVar = dict.fromkeys(
        ("nu", "rate", "response_eigenvalues", "round_map", "spectrum", "stable", "step_limits", "undecided"),
        "with the argument loss a round is no linear map and has no eigenvalues; `total_loss` is the sum of the losses "
        "after training, `bound` bounds `mean_loss`, and `eta_limit` is the eta_local below which the bound holds. "
        "Without the argument loss, the regime of the squared loss has this name",
    ) | {
        "at": "call kernel_regime with the other steps and the loss",
        "local_outputs": "clients' outputs are kept for the squared loss only: leave out the argument loss",
        "rounds_to": "with the argument loss the residual y - f need not vanish; look at `total_loss` of many rounds. "
        "Without the argument loss, the regime of the squared loss has this name",
        "trajectory": "clients' outputs are kept for the squared loss only: leave out the argument loss, or use "
        "`outputs`",
    }

    @property
    def eta_limit(self) -> float:
        """1/L = 1 / (b max_c |H_cc|). `bound` holds if eta_local is below this number and eta_global is at most 1."""
        largest = self.loss.smoothness * float(self._clients.values.max())
        return 1 / largest if largest else np.inf

    @cached_property
    def step_warning(self) -> str | None:
        """The warning that `bound` does not hold at these steps; None if it holds.

        The warning names steps at which `bound` holds.
        """
        if self.setup.eta_local < self.eta_limit and self.setup.eta_global <= 1:
            return None
        setup = self.setup
        return (
            f"eta_local = {setup.eta_local:g} and eta_global = {setup.eta_global:g} are too large for the bound of the "
            f"{self.loss.name} losses, which holds for eta_local < {self.eta_limit:.6g} and eta_global <= 1"
        )

    def total_loss(self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> np.ndarray:
        """F(f(t)), the sum of the samples' losses at the global model, in the shape of `rounds`.

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises: as `outputs`.
        """
        outputs = self.outputs(np.atleast_1d(checked_rounds(rounds)), initial_outputs).reshape(-1, *self._labels.shape)
        return self.loss.value(outputs, self._labels).sum(axis=(1, 2)).reshape(np.shape(rounds))

    def mean_loss(self, rounds: int, initial_outputs: ArrayLike | None = None) -> float:
        """The mean, over the first rounds and their local steps, of the sum of the clients' losses.

        A client's loss in a step is the loss of its own model before the step. `bound` is an upper bound of this mean.

        Args:
            rounds: how many of the first rounds, at least 1.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises:
            ValueError: rounds below 1; initial outputs of the wrong shape.
        """
        count = _positive(rounds)
        _, total = self._run(self._labels - self._initial_residual(initial_outputs), np.array([count]))
        return float(total) / (count * self.setup.local_steps)

    def bound(self, rounds: int, initial_outputs: ArrayLike | None = None) -> float:
        """An upper bound of `mean_loss`; no round is run to compute it.

        The bound is min_alpha [...] / (1 - eta_l L), with the bracket of the formula at the head of this module.

        Args:
            rounds: how many of the first rounds, at least 1.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises:
            ValueError: rounds below 1; steps for which the bound does not hold.
        """
        if self.step_warning:
            raise ValueError(self.step_warning)
        start = self._labels - self._initial_residual(initial_outputs)
        setup = self.setup
        total_step = setup.eta_local * setup.eta_global * setup.local_steps * _positive(rounds)
        return self._least(start, self.problem.n_clients / total_step) / (1 - setup.eta_local / self.eta_limit)

    def _least(self, start: Float[np.ndarray, "n C"], ridge: float) -> float:
        """min_alpha [ridge alpha^T H alpha / 2 + F(start + H alpha)], for one output after the other, by damped Newton
        steps.
        """
        values, basis = np.linalg.eigh(self.gram)
        root = basis * np.sqrt(np.maximum(values, 0))

        def objective(s: np.ndarray, f: np.ndarray, y: np.ndarray) -> float:
            return float(ridge / 2 * s @ s + self.loss.value(f + root @ s, y).sum())

        total = 0.0
        for f, y in zip(start.T, self._labels.T, strict=True):
            s = np.zeros(len(f))
            now = objective(s, f, y)
            for _ in range(NEWTON):
                interruption.check()
                at = f + root @ s
                gradient = ridge * s + root.T @ self.loss.slope(at, y)
                hessian = ridge * np.eye(len(s)) + root.T @ (self.loss.curvature(at, y)[:, None] * root)
                step, length = np.linalg.solve(hessian, gradient), 1.0
                fall = gradient @ step  # near the minimum `step` lowers the objective by about fall / 2
                if fall <= PRECISE * now:
                    break
                while length > 1e-6 and objective(s - length * step, f, y) > now - 0.1 * length * fall:
                    length /= 2
                s = s - length * step
                now = objective(s, f, y)
            total += now
        return total

    def _both(self, initial: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        coefficients = self._coefficients(initial, t)
        residuals = np.empty_like(coefficients)
        for i, alpha in enumerate(coefficients):
            interruption.check()
            residuals[i] = initial - self.gram @ alpha
        return residuals, coefficients

    def _coefficients(self, initial: np.ndarray, t: np.ndarray) -> Float[np.ndarray, "T n C"]:
        return self._run(self._labels - initial, t)[0]

    def _run(self, start: Float[np.ndarray, "n C"], t: np.ndarray) -> tuple[Float[np.ndarray, "T n C"], float]:
        """The coefficients at these rounds, and the sum of the losses of all local steps before the last round."""
        setup, members = self.setup, self._clients.members
        blocks = [self.gram[np.ix_(owned, owned)] for owned in members]
        alpha, total, coefficients = np.zeros_like(start), 0.0, np.empty((len(t), *start.shape))
        last = int(t.max(initial=0))
        with np.errstate(over="ignore", invalid="ignore"):  # the caller reports an overflow
            for now in range(last + 1):
                coefficients[t == now] = alpha
                if now == last:
                    break
                interruption.check()
                f, move = start + self.gram @ alpha, np.zeros_like(alpha)
                for owned, block in zip(members, blocks, strict=True):
                    own, y = f[owned], self._labels[owned]
                    for _ in range(setup.local_steps):
                        total += self.loss.value(own, y).sum()
                        step = setup.eta_local * self.loss.slope(own, y)
                        own = own - block @ step
                        move[owned] -= step
                alpha = alpha + setup.eta_global / len(members) * move
        return coefficients, total


def _positive(rounds: int) -> int:
    if not rounds >= 1:
        raise ValueError(f"rounds is {rounds!r}; the bound is of the first rounds, at least 1 of them")
    return int(rounds)
