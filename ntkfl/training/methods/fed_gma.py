"""FedGMA (Tenison et al. 2023): coordinates on whose sign clients disagree move less."""

from dataclasses import dataclass
from typing import Literal

from ntkfl.messages import require_number
from ntkfl.training.method import Average, Finish, LocalRule, Method, Objective, Round, ServerOptimizer, moved
from ntkfl.training.tree import Params, Tensor, Tree, tree_map

NAME = "fedgma"
NOT_LINEAR = "its server masks coordinates by the signs of the clients' differences"
RELEASED_RATE = 1e-4


def method(
    objective: Objective,
    *,
    threshold: float = 0.8,
    mask: Literal["soft", "hard"] = "soft",
    released: bool = False,
    server_rate: float = 1.0,
) -> Method:
    """w <- w + server_rate mask * sum_i p_i Delta_i.

    The mask is 1 at coordinates where A = |mean_i sign Delta_i| >= threshold. At other coordinates the mask is A (soft)
    or 0 (hard). The mean of the signs over clients is unweighted.

    Args:
        objective: the loss that clients descend.
        threshold: a coordinate moves fully if A is at least this; with a threshold above 1 no coordinate moves fully;
            default 0.8.
        mask: "soft" or "hard": how coordinates with A below the threshold are masked; default soft.
        released: whether to follow the code of the IMA paper. The update in this code is nearly FedAvg's: w <- w +
            sum_i p_i Delta_i - 1e-4/|S| sum_i mask_i Delta_i, with mask_i 1 at coordinates where A > threshold and
            Delta_i has the majority's sign. (Inside its loop over clients the paper's code also replaces w by the sum
            so far, so that its result depends on the order of the clients. This replacement is left out here.)
        server_rate: rate of the step on the server; default 1.

    Raises:
        ValueError: a negative threshold, a server rate that is not positive; `released` with another mask or rate.
    """
    require_number("threshold", threshold, "be 0 or more")
    if released and (mask != "soft" or server_rate != 1):
        raise ValueError("released has a mask and a rate of its own; leave out `mask` and `server_rate`")

    def masked(means: Tree, state: Tree, now: Round) -> tuple[Params, Tree]:
        def of(difference: Tensor, signs: Tensor) -> Tensor:
            agreement = _surplus(signs, now).abs() / now.cohort
            below = 0 * agreement if mask == "hard" else agreement
            return difference * below.where(~(agreement >= threshold), 1)

        return tree_map(of, means["difference"], means["sign"]), {}

    server = Released(threshold=threshold) if released else ServerOptimizer(server_rate, direction=masked)
    uniform: dict[str, Literal["uniform"]] = {"sign": "uniform", "rise": "uniform", "fall": "uniform"}
    return Method(NAME, objective, local=Signs(released), server=server, weighting_of=uniform)


@dataclass(frozen=True)
class Signs(LocalRule):
    """A client sends Delta_i and the signs of Delta_i.

    If `parts`, it also sends the positive part of Delta_i, as "rise", and the negative part, as "fall".
    """

    parts: bool

    def finish(self, client: Tree, broadcast: Tree, end: Finish) -> tuple[Tree, Tree]:
        uploads: Tree = {"difference": end.difference, "sign": tree_map(lambda d: d.sign(), end.difference)}
        if self.parts:
            uploads["rise"] = tree_map(lambda d: d.clamp(min=0), end.difference)
            uploads["fall"] = tree_map(lambda d: d.clamp(max=0), end.difference)
        return uploads, client


@dataclass(frozen=True)
class Released(Average):
    """FedAvg's step, less 1e-4 times the mean of those parts of the Delta_i whose signs agree with the majority."""

    threshold: float = 0.8

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        def agreeing(signs: Tensor, rise: Tensor, fall: Tensor) -> Tensor:
            surplus = _surplus(signs, now)
            return rise.where(surplus > 0, fall).where(surplus.abs() / now.cohort > self.threshold, 0)

        agreed: Params = tree_map(agreeing, means["sign"], means["rise"], means["fall"])
        state = super().step(state, means, now)
        return state | {"model": moved(state["model"], agreed, -RELEASED_RATE)}


def _surplus(signs: Tensor, now: Round) -> Tensor:
    """For each coordinate, the number of clients that raise it less the number of clients that lower it.

    The result is rounded to an integer, so that rounding errors do not decide whether A is at the threshold.
    """
    return (signs * now.cohort).round()
