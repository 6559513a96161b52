"""Methods with memory from a certified checkpoint: all models stay in a ball that shrinks at the method's own rate."""

import sympy as sp

from bounds import BEYOND, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.fl_ntk.cases.certified_method import ROUNDS, SMALL_METHODS, MethodTraining, method_case
from bounds.fl_ntk.certificates.certified_run import certified
from bounds.mutants import Mutant, power, replaced
from ntkfl.estimate import Estimate

radius, wide, rate, rounds = sp.symbols("R R_q q t", positive=True)
SHRUNK = rate**rounds * wide


def _constants(case: MethodTraining) -> dict:
    norms = case.certificate.norms
    if not norms:
        raise ArithmeticError(case.certificate.why)
    return {radius: norms[0].radius, wide: norms[-1].radius, rate: norms[-1].rate, rounds: ROUNDS - 1}


def _measure(case: MethodTraining) -> tuple[Estimate, Estimate, Estimate]:
    farthest, changes, off = case.far
    return (
        Estimate(farthest.max(), off, "long precision"),
        Estimate(farthest[-1], off, "long precision"),
        Estimate(changes.max(), off, "long precision"),
    )


def _leaving() -> MethodTraining:
    """Labels far from the outputs, 16 neurons: neurons cross their kinks."""
    return method_case(0, "fedavgm", 3.0, 16)


def _long_steps() -> MethodTraining:
    """A certified network, trained with steps twenty times as long as the certified ones."""
    return method_case(0, "fedavgm", 1e-4, 64, longer=20.0)


def _with_a_memory() -> MethodTraining:
    """A certified network, trained from a velocity that is not 0."""
    return method_case(0, "fedavgm", 1e-4, 64, remembered=1.0)


STATEMENTS = (
    Statement(
        id="fl-ntk/any-method",
        title="From a certified checkpoint momentum, SCAFFOLD, FedDyn and FedProx converge at their own rate",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "docs/proofs/any_method.md#the-theorem",
            note="z is the state, residual and memory; every round multiplies the norm |S z| by q or less, and e |S z| "
            "bounds the distance of every model from W*, a point that fits all labels. No neuron's pattern can change "
            "in the ball, so that the network trains as a linear model does. R is e |S z_0| in the norm with the "
            "smallest ball; R_q and q belong to the norm with the fastest rate.",
        ),
        hypotheses=(
            certified(
                "sign_ri w*_r.x_i > kappa_ri B for every neuron and sample, where B bounds |U - W*| over all models U "
                "whose gradients are used, and |S T S^-1| <= q < 1 for the round's map T, with proven errors",
                lambda case: case.certificate,
            ),
            Hypothesis("steps", "the steps are those of the certificate", lambda case: 1 - case.longer),
            Hypothesis("memory", "server and clients remember nothing at the start", lambda case: -case.remembered),
        ),
        forms={Form.NEW: Claim((radius, SHRUNK, radius))},
        constants=_constants,
        measure=_measure,
        symbols={
            radius: "bound on the distance of every model from W*",
            wide: "the same bound in the norm with the fastest rate",
            rate: "bound on the factor by which that norm of the state falls in a round",
            rounds: "rounds",
        },
        left_formula=("max_{t,j} |U_{t,j} - W^*|", "max_j |U_{t,j} - W^*|", "|f(x,t) - f^*(x)| / |x|"),
        says_left="left 1: the largest distance from W* of a model of the server or a client in 40 rounds; left "
        "2: the same in the last round; left 3: outputs of the server's models less those of W*, over |x|; in "
        "long precision",
        families=(SMALL_METHODS,),
        mutants=(
            replaced(radius, radius / 2, "half of the ball"),
            power(rate, 2),
            Mutant("predictions a hundredth as far", lambda part: part / 100 if part == radius else part),
        ),
        necessity={"certified": _leaving, "steps": _long_steps, "memory": _with_a_memory},
    ),
)
