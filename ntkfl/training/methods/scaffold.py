"""SCAFFOLD (Karimireddy et al. 2020): control variates correct the drift of local steps."""

from dataclasses import dataclass
from operator import sub
from typing import Literal

import numpy as np

from ntkfl.gram.tiles import UNIT
from ntkfl.limit.feedback import Feedback, LocalErrors, Wobble, relative
from ntkfl.limit.linear_round import Blocks, LinearRound, Memory, Vectors
from ntkfl.limit.outer_spectrum import OuterSpectrum
from ntkfl.limit.scheduled_rounds import DrawnRound
from ntkfl.training.method import Average, Finish, LocalRule, Method, Objective, Round, Step, moved
from ntkfl.training.model import Model
from ntkfl.training.tree import Params, Tree, tree_map, zeros_like

NAME = "scaffold"
# the move of a round is divided by the server rate times the summed local steps only if this product is between 1 /
# LARGEST_DIVISOR and LARGEST_DIVISOR
LARGEST_DIVISOR = 2.0**100


def method(objective: Objective, *, option: Literal["I", "II"] = "II", server_rate: float = 1.0) -> Method:
    """Clients descend along g_i - c_i + c with their gradients g_i. The server keeps c, the mean of all clients' c_i.

    Option I: c_i <- grad F_i at the model received, which takes a further pass over the client's samples. Option II:
    c_i <- c_i - c - Delta_i / (a_i rate), where a_i is the number of steps taken. With momentum, a_i is the length of
    the displacement that a constant gradient of length 1 would have caused, divided by the rate, so that c_i is a
    weighted mean of gradients. Hence option II needs sgd. Option II does not take into account momenta that are kept
    from round to round.

    Args:
        objective: the loss that clients descend.
        option: how a client's control variate c_i is computed; default II.
        server_rate: rate of the step on the server; default 1.

    Raises:
        ValueError: a server rate that is not positive.
    """
    needs = frozenset() if option == "I" else frozenset({"sgd"})
    local = ControlVariates(needs_full_gradient=option == "I")
    return Method(NAME, objective, local=local, server=Controlled(server_rate), weighting="uniform", needs=needs)


@dataclass(frozen=True)
class ControlVariates(LocalRule):
    """A client keeps c_i, as "control". The rule is option I if `needs_full_gradient`, else option II."""

    needs_full_gradient: bool = False

    def initial(self, model: Model, broadcast: Tree) -> Tree:
        return {"control": zeros_like(broadcast["model"])}

    def begin(self, kept: Tree, broadcast: Tree, full_gradient: Params) -> Tree:
        return kept | {"full": full_gradient}

    def correct(self, gradient: Params, params: Params, step: Step) -> Params:
        return tree_map(lambda g, own, c: g - own + c, gradient, step.client["control"], step.broadcast["control"])

    def finish(self, client: Tree, broadcast: Tree, end: Finish) -> tuple[Tree, Tree]:
        control = client["full"] if self.needs_full_gradient else _mean_gradient(client["control"], broadcast, end)
        change = tree_map(sub, control, client["control"])
        return {"difference": end.difference, "control": change}, {"control": control}


@dataclass(frozen=True)
class Controlled(Average):
    """FedAvg's step, and c <- c + |S|/M times the cohort's mean change of c_i, with cohort S and M clients in all."""

    vectors = ("control",)

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        control = moved(state["control"], means["control"], now.cohort / now.population)
        return super().step(state, means, now) | {"control": control}


def _mean_gradient(own: Params, broadcast: Tree, end: Finish) -> Params:
    """Returns c_i - c - Delta_i / (a_i rate), the mean of the steps' gradients, or c_i if there was no step."""
    length = end.coefficient * end.rate
    taken = length > 0
    share = 1 / length.where(taken, 1)
    return tree_map(
        lambda c_i, c, d: (c_i - c - share * d).where(taken, c_i), own, broadcast["control"], end.difference
    )


def linear(method: Method, blocks: Blocks) -> LinearRound:
    """A round with all clients, as a map of (r, beta). The control variate of client c is c_c = -Phi_c^T beta_c.

    r are the residuals, Phi_c the features of client c's samples, H the Gram matrix of all samples, and H_D its blocks
    of samples of the same client. N is the number of clients, g the server_rate, and k_c the summed length of client
    c's steps. The vector k has the entry k_c at every sample of client c. Displacements are given by coefficients of
    the samples. p = f(H_D) is the response of the local steps to r.

    The control variates add a drift to each step: in a step of length 1, they lower the residuals by e = H beta / N -
    H_D beta. The matrix G is the response of the local steps to e: the drift makes their displacement smaller by G e.
    A step starts from the residual that the earlier steps and the drift leave. So beta' = (p r - G e) / k with option
    II, and beta' = r with option I.

    The server moves by g/N times p r - G e + (mean_c k_c - k) beta. The second summand is what the control variates of
    all clients add, and is 0 if all clients take the same steps. With option II and equal steps, r' = r - (g k / N) H
    beta'. If r is then eliminated, a number z = 1 + w with w != 0 is an eigenvalue of the round exactly if the matrix
    (g k p + (g k p + G) w) H / N + w (k w + p) is singular.

    Source: docs/proofs/linear_methods.md#state-maps.
    """
    server_rate, values = method.options["server_rate"], blocks.clients.values
    members, length = blocks.clients.members, blocks.lengths()
    clients, even = len(members), length.min() == length.max()
    mean_length = length[0] if even else np.mean([length[owned[0]] for owned in members])
    response, later, uneven = blocks.response(), blocks.drift_response(), (mean_length - length)[:, None]
    exact = method.local.needs_full_gradient

    def step(residual: Vectors, memory: Memory) -> tuple[Vectors, Memory]:
        return taken(residual, memory, blocks.gram @ memory[0] / clients)

    def taken(residual: Vectors, memory: Memory, common: Vectors) -> tuple[Vectors, Memory]:
        (beta,) = memory
        drift = common - blocks.apply(values, beta)
        met = blocks.apply(response, residual) - blocks.apply(later, drift)
        return server_rate / clients * (met + uneven * beta), (residual if exact else met / length[:, None],)

    pull = server_rate * length * response  # g k p in the notation above
    # `OuterSpectrum.known` checks that the three quotients below are positive and finite, and that the last of them is
    # at most 1
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        outer = OuterSpectrum(length / (pull + later), response / length, pull / (pull + later))
    if exact or not even:
        return LinearRound(step, 1)
    walked = float(mean_length)

    def again(residual: Vectors, memory: Memory, image: Vectors) -> tuple[Vectors, Memory]:
        # the move of the previous round was g k / N times beta
        return taken(residual, memory, image / (server_rate * walked))

    part = 1 / (pull + later) if (pull + later).min() > 0 else np.full(len(pull), np.inf)

    def wobble(errors: LocalErrors) -> Wobble:
        of_response = server_rate * walked * errors.response
        of_drift = errors.blocks * errors.growth * walked**3 / 4
        scale, zero = relative(of_response + of_drift, 1 / float(part.max())), errors.response / walked
        least = float((2 - outer.zero).min()) - zero
        # bound of the error of `Feedback.weights`, W, where N W = (g k P + 2 G) / (2 k - P)
        of_weights = (of_response + 2 * of_drift) / clients + errors.response * float(feedback.weights.max())
        return Wobble(scale, zero, 2 * scale, of_weights / (walked * least) if least > 0 else np.inf)

    def slips(
        errors: LocalErrors, residual: Vectors, memory: Vectors, move: Vectors, after: Vectors
    ) -> tuple[float, float]:
        largest, old = float(later.max()), float(np.linalg.norm(memory))
        # an upper bound of the norm of the drift
        drift = (errors.size / clients + float(values.max()) + errors.blocks) * old
        met = errors.response * float(np.linalg.norm(residual))
        met += (errors.blocks * walked**3 / 4 + (errors.rounded + 12 * UNIT) * largest) * drift
        met += largest * (errors.product / clients + errors.blocks + errors.rounded * float(values.max())) * old
        rounding = 8 * UNIT * walked * float(np.linalg.norm(after)) + 4 * UNIT * largest * drift
        return (met + rounding) / walked, 8 * UNIT * float(np.linalg.norm(move))

    ahead = server_rate * walked
    motion = {"ahead": ahead, "passed": later / walked, "unit": ahead / clients}
    feedback = Feedback(outer, 1 / clients, response, wobble, slips, **motion)
    spared = (
        again if 1 / LARGEST_DIVISOR < server_rate * walked < LARGEST_DIVISOR else None
    )  # in this range the rounding of the quotient is small enough
    return LinearRound(step, 1, outer=outer, feedback=feedback, again=spared)


def drawn(method: Method, blocks: Blocks) -> DrawnRound:
    """A round of s drawn clients, as a map of (r, beta), with the notation of `linear`.

    In every round the server's variate is the mean of all clients' variates. A drawn client moves by p r - G e on its
    own samples. The client's control variates add k_c (beta / N - beta_c) to this move, where beta_c is beta at the
    client's samples and 0 elsewhere. The server moves by g / s times the sum over the drawn clients.

    Source: docs/proofs/random_rounds.md#clients-that-remember.
    """
    n, length, owner = len(blocks.gram), blocks.lengths(), blocks.owner
    clients, cohort = len(blocks.clients.members), blocks.cohort or len(blocks.clients.members)
    residual, control = np.split(np.eye(2 * n), 2)
    drifts = np.hstack([np.zeros((n, n)), blocks.gram / clients - blocks.own_gram])
    met = blocks.moved(residual, drifts)
    fresh = residual if method.local.needs_full_gradient else met / length[:, None]
    server_rate = method.options["server_rate"]
    rate = server_rate / cohort
    moves = rate * (met - length[:, None] * control)
    noise = np.stack([np.full(n, rate), np.zeros(n) if method.local.needs_full_gradient else 1 / length])
    kept = fresh - control, rate / clients * control
    return DrawnRound(0 * met, moves, *kept, drifts, noise, length, owner, cohort, -server_rate)
