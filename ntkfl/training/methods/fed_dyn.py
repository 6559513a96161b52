"""FedDyn (Acar et al. 2021): with dual variables, each minimiser of the uniform mean of the F_i is a fixed point."""

from dataclasses import dataclass
from operator import sub

import numpy as np

from ntkfl.gram.tiles import UNIT
from ntkfl.limit.feedback import Feedback, LocalErrors, Wobble, relative
from ntkfl.limit.linear_round import Blocks, LinearRound, Memory, Vectors
from ntkfl.limit.outer_spectrum import OuterSpectrum
from ntkfl.limit.scheduled_rounds import DrawnRound
from ntkfl.messages import require_number
from ntkfl.training.method import Finish, LocalRule, Method, Objective, Round, ServerRule, Step, moved
from ntkfl.training.model import Model
from ntkfl.training.tree import Params, Tree, tree_map, zeros_like

NAME = "feddyn"


def method(objective: Objective, *, alpha: float = 0.01) -> Method:
    """Clients descend F_i(w) - <g_i, w> + alpha/2 |w - w_received|^2, then g_i <- g_i - alpha Delta_i.

    S is the cohort and M the number of all clients. The server keeps h <- h - alpha/M sum_(i in S) Delta_i and takes w
    <- mean_(i in S) w_i - h / alpha, which is broadcast and evaluated. If a client solves its local problem exactly,
    g_i = grad F_i(w_i). FedDyn with a small alpha is not FedAvg: in the first round its step is (1 + |S|/M) times the
    mean difference, and -h / alpha is 1/M times the sum of the differences of all rounds so far.

    Args:
        objective: the loss that clients descend.
        alpha: strength of the proximal term, positive, default .01.

    Raises:
        ValueError: an alpha that is not positive.
    """
    return Method(NAME, objective, local=Dual(alpha), server=DualMean(alpha), weighting="uniform")


@dataclass(frozen=True)
class Dual(LocalRule):
    """A client keeps g_i, as "dual", and descends along grad F_i - g_i + alpha (w - w_received)."""

    pull: float

    def __post_init__(self) -> None:
        require_number("alpha", self.pull, "be positive")

    def initial(self, model: Model, broadcast: Tree) -> Tree:
        return {"dual": zeros_like(broadcast["model"])}

    def correct(self, gradient: Params, params: Params, step: Step) -> Params:
        drawn = moved(gradient, tree_map(sub, params, step.broadcast["model"]), self.pull)
        return tree_map(sub, drawn, step.client["dual"])

    def finish(self, client: Tree, broadcast: Tree, end: Finish) -> tuple[Tree, Tree]:
        return {"difference": end.difference}, {"dual": moved(client["dual"], end.difference, -self.pull)}


@dataclass(frozen=True)
class DualMean(ServerRule):
    """The server keeps h, as "dual".

    h is the mean of g_i over all clients, including the clients that the round has not drawn.
    """

    alpha: float
    vectors = ("dual",)

    def broadcast(self, state: Tree, number: int) -> Tree:
        return {"model": state["model"]}

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        dual = moved(state["dual"], means["difference"], -self.alpha * now.cohort / now.population)
        mean = moved(state["model"], means["difference"])
        return {"model": moved(mean, dual, -1 / self.alpha), "dual": dual}


def linear(method: Method, blocks: Blocks) -> LinearRound:
    """A round with all clients, as a map of (r, gamma). The dual of client c is g_c = Phi_c^T gamma_c.

    r are the residuals, Phi_c the features of client c's samples, H the Gram matrix of all samples, and H_D its blocks
    of samples of the same client. Displacements are given by coefficients of the samples. P = f_K(H_D) is the response
    to r of K local steps with the proximal term alpha.

    Clients move by delta = P (r + gamma), then gamma' = gamma - alpha delta. The server keeps h, the mean of the g_c
    over the N clients, and moves by (delta - gamma' / alpha) / N. If r is eliminated, a number z = 1 + w is an
    eigenvalue of the round exactly if the matrix (2 w + 1) H / N + w^2 / P + alpha w is singular.

    Source: docs/proofs/linear_methods.md#state-maps.
    """
    alpha, clients = method.local.pull, len(blocks.clients.members)
    response = blocks.response(alpha)

    def step(residual: Vectors, memory: Memory) -> tuple[Vectors, Memory]:
        delta = blocks.apply(response, residual + memory[0])
        dual = memory[0] - alpha * delta
        return (delta - dual / alpha) / clients, (dual,)

    # `OuterSpectrum.known` checks that the quotients are positive and finite
    with np.errstate(divide="ignore", over="ignore"):
        outer = OuterSpectrum(0.5 / response, alpha * response, np.full(len(response), 0.5))
    smallest, largest = response.min(), response.max()

    def wobble(errors: LocalErrors) -> Wobble:
        wrong, least = errors.response, 2 - alpha * float(largest)
        # bound of the error of `Feedback.weights`, W, where N W = 3 P / (2 - alpha P)
        of_weights = 6 / clients * wrong / (least * (least - alpha * wrong)) if alpha * wrong < least else np.inf
        return Wobble(relative(wrong, float(smallest)), alpha * wrong, 0.0, of_weights)

    def slips(
        errors: LocalErrors, residual: Vectors, memory: Vectors, move: Vectors, after: Vectors
    ) -> tuple[float, float]:
        old, new = (np.linalg.norm(dual) for dual in (memory, after))
        delta = errors.response * np.linalg.norm(residual + memory)
        delta += 2 * UNIT * largest * (np.linalg.norm(residual) + old)
        dual = alpha * delta + 4 * UNIT * (2 * old + new)
        return float(dual), float(delta + dual / alpha + 4 * UNIT * (old + 2 * new) / alpha) / clients

    motion = {"unit": -1 / (alpha * clients), "beyond": 1.0}
    feedback = Feedback(outer, 1 / clients, response, wobble, slips, kept=2 * response - 1 / alpha, **motion)
    return LinearRound(step, 1, pull=alpha, outer=outer, feedback=feedback)


def drawn(method: Method, blocks: Blocks) -> DrawnRound:
    """A round of s drawn clients, as a map of (r, gamma), with the notation of `linear`.

    A drawn client moves by delta, and its dual by -alpha delta. On full batches delta = P (r + gamma). A step of length
    1 along the dual lowers the client's residual by H_cc gamma. The server moves by the mean of the drawn clients'
    delta, less h / alpha, where h is the mean of all N duals after the round. Noise xi that is added to the mean lowers
    h by alpha s / N times xi, so that every later round moves by s / N times xi again.

    Source: docs/proofs/random_rounds.md#clients-that-remember.
    """
    n, owner, alpha = len(blocks.gram), blocks.owner, method.local.pull
    clients, cohort = len(blocks.clients.members), blocks.cohort or len(blocks.clients.members)
    residual, dual = np.split(np.eye(2 * n), 2)
    drift = np.hstack([np.zeros((n, n)), blocks.own_gram])
    delta = blocks.moved(residual, drift, alpha) + blocks.lengths(alpha)[:, None] * dual
    always, share, kept = -dual / (alpha * clients), 1 / cohort + 1 / clients, cohort / clients
    noise = np.stack([np.full(n, share), np.full(n, -alpha)])
    nothing = np.zeros(n)  # a client changes only its own samples
    own = share * delta, -alpha * delta, 0 * delta
    return DrawnRound(always, *own, drift, noise, nothing, owner, cohort, -1 - kept, kept)
