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
    """w <- w + server_rate mask * sum_i p_i Delta_i; the mask is 1 where A = |mean_i sign Delta_i| >= threshold.

    Elsewhere it is A (soft), or 0 (hard). The mean of signs is unweighted.

    Args:
        objective: the loss that clients descend.
        threshold: the agreement A from which a coordinate moves fully; above 1 no coordinate does; default 0.8.
        mask: "soft" or "hard", the mask of coordinates below the threshold; default soft.
        released: whether to follow the code of the IMA paper, which is nearly FedAvg: w <- w + sum_i p_i Delta_i -
            1e-4/|S| sum_i mask_i Delta_i, where mask_i is 1 where A > threshold and Delta_i agrees with the majority.
            (Inside its loop over clients that code also replaces w by the sum so far, so that the result depends on
            the clients' order; this is left out.)
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
    """A client sends Delta_i, its signs and, with `parts`, its positive part "rise" and its negative part "fall"."""

    parts: bool

    def finish(self, client: Tree, broadcast: Tree, end: Finish) -> tuple[Tree, Tree]:
        uploads: Tree = {"difference": end.difference, "sign": tree_map(lambda d: d.sign(), end.difference)}
        if self.parts:
            uploads["rise"] = tree_map(lambda d: d.clamp(min=0), end.difference)
            uploads["fall"] = tree_map(lambda d: d.clamp(max=0), end.difference)
        return uploads, client


@dataclass(frozen=True)
class Released(Average):
    """FedAvg's step, less 1e-4 times the mean of the parts that agree with the majority."""

    threshold: float = 0.8

    def step(self, state: Tree, means: Tree, now: Round) -> Tree:
        def agreeing(signs: Tensor, rise: Tensor, fall: Tensor) -> Tensor:
            surplus = _surplus(signs, now)
            return rise.where(surplus > 0, fall).where(surplus.abs() / now.cohort > self.threshold, 0)

        agreed: Params = tree_map(agreeing, means["sign"], means["rise"], means["fall"])
        state = super().step(state, means, now)
        return state | {"model": moved(state["model"], agreed, -RELEASED_RATE)}


def _surplus(signs: Tensor, now: Round) -> Tensor:
    """How many more clients raise a coordinate than lower it, as an integer, so that rounding crosses no threshold."""
    return (signs * now.cohort).round()
