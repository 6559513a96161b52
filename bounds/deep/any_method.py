"""A method with memory from a certified checkpoint of a smooth network: its rate, and the reach of its models."""

import sympy as sp

from bounds import BEYOND, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.deep.cases.method_rounds import ROUNDS, SMALL_METHOD_ROUNDS, MethodRounds, method_case
from bounds.mutants import Mutant, power
from ntkfl.estimate import Estimate

size, rate, reach, rounds = sp.symbols("s_0 q R t", positive=True)
SHRUNK = rate**rounds * size


def _constants(case: MethodRounds) -> dict:
    claimed, linear = case.claimed, case.known.linear
    return {
        size: (Estimate.exact(linear.read) * linear.start).hi,
        rate: claimed.rate,
        reach: claimed.reach,
        rounds: ROUNDS,
    }


def _measure(case: MethodRounds) -> tuple[Estimate, Estimate]:
    run = case.run
    return (
        Estimate(run.sizes[-1], run.sizes_off, "rounding, generous"),
        Estimate(run.moved, run.moved_off, "rounding, generous"),
    )


def _curved() -> MethodRounds:
    """A residual 20,000 times too large: gradients turn during training, and the linear model's rate fails."""
    return method_case(2, "fedavgm", 2e4, "fc:3:erf", 8, 2, 0.6)


def _long_steps() -> MethodRounds:
    """A certified network, trained with local steps six times as long as the certified ones."""
    return method_case(2, "fedavgm", 0.01, "fc:3:erf", 40, 2, 0.6, longer=6.0)


def _with_a_memory() -> MethodRounds:
    """A certified network, trained from a velocity that is not 0."""
    return method_case(2, "fedavgm", 0.01, "fc:3:erf", 40, 2, 0.6, remembered=1.0)


STATEMENTS = (
    Statement(
        id="deep/any-method",
        title="From a certified checkpoint of a smooth network momentum, SCAFFOLD, FedDyn and FedProx fit the data",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "docs/proofs/any_method.md#smooth-networks",
            note="all layers are trained. z is the state, residual and memory; every round of the linear model at the "
            "checkpoint contracts the norm |S z|. The network's curvature changes gradients by at most L_J times the "
            "movement. s_0 is e_0 |S z_0|; q and R are the certificate's.",
        ),
        hypotheses=(
            Hypothesis(
                "certified",
                "eta mu < 1, eta G_c^2 <= 2 (1 - eta mu), A (1, lambda) <= q (1, lambda) with q < 1, and delta + d "
                "|S z_0| < rho, with proven errors",
                lambda case: 0.0 if case.certificate.certified else -1.0,
            ),
            Hypothesis("steps", "the steps are those of the certificate", lambda case: -abs(case.longer - 1)),
            Hypothesis("memory", "server and clients remember nothing at the start", lambda case: -case.remembered),
        ),
        forms={Form.NEW: Claim((SHRUNK, reach))},
        constants=_constants,
        measure=_measure,
        symbols={
            size: "bound on (r' K^-1 r)^(1/2) at the checkpoint, by the norm of states",
            rate: "bound on the factor by which the norm of states falls in a round",
            reach: "bound on the distance of every model from the checkpoint",
            rounds: "rounds",
        },
        left_formula=("(r_t' K^{-1} r_t)^{1/2}", "max_{t,c,k} |theta_{t,c,k} - theta_0|"),
        says_left=f"left 1: the residual after {ROUNDS} rounds, by the kernel K of the checkpoint; left 2: the "
        "largest distance of a model of the server or of a client from the checkpoint; in float64",
        families=(SMALL_METHOD_ROUNDS,),
        mutants=(
            power(rate, 2),
            Mutant("models that stay within an eighth", lambda part: part / 8 if part == reach else part),
        ),
        necessity={"certified": _curved, "steps": _long_steps, "memory": _with_a_memory},
    ),
)
