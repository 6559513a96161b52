"""Training in any order from a certified checkpoint: |W - W*| never grows, and predictions hardly change."""

from dataclasses import replace

import numpy as np
import sympy as sp

from bounds import Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.fl_ntk.certificates.certified_run import certified
from bounds.fl_ntk.ordered_training import OTHER_LOSSES, OrderedTraining, loss_case, ordered_families, small_case
from bounds.mutants import Mutant, power, replaced
from bounds.vocabulary import BEYOND
from ntkfl.estimate import Estimate
from ntkfl.limit.convex_loss import HINGE

CLEAR = 1e6  # a step's ratio is known if the step's eps eta r^2 is above this multiple of the rounding
NEVER = 1e9  # the ratio of a step without a decrease

D = sp.Symbol("D", positive=True)


def _measure(case: OrderedTraining) -> tuple[Estimate, Estimate, Estimate]:
    """Largest ratio of a step's claimed to its real decrease; |W - W*|^2 plus all claimed decreases; output changes."""
    run, off = case.run, case.rounding
    distance, spent = run.distance, case.claimed * run.spent
    step, lowered = np.diff(spent), distance[:-1] ** 2 - distance[1:] ** 2
    doubt = 2 * off * (distance[:-1] + distance[1:]) + 2 * off**2
    told = step > CLEAR * doubt  # in later steps the residual is of the size of rounding
    surely = lowered > doubt
    ratio = np.where(surely, step / np.where(surely, lowered, 1), NEVER)[told].astype(float)
    error = np.where(surely, 2 * doubt * step / np.where(surely, lowered, 1) ** 2, 0)[told].astype(float)
    changes = np.abs(run.outputs - run.outputs[0]).astype(float)[1:, :, 0]
    return (
        Estimate(ratio.max(initial=0), error.max(initial=0), "long precision"),
        Estimate(float(distance[-1] ** 2 + spent[-1]), float(2 * off * (distance[-1] + off)), "long precision"),
        Estimate(changes / np.linalg.norm(case.probes, axis=1), off, "long precision"),
    )


def _leaving() -> OrderedTraining:
    """Labels as far from the outputs as they are large, 16 neurons: neurons cross kinks that W* has not crossed."""
    return small_case(2, 1.0, 16, "distance")


def _long_steps() -> OrderedTraining:
    """A certified network, steps 1.5 times as long as allowed."""
    return small_case(0, 1e-3, 64, "distance", longer=1.5)


def _eager_server() -> OrderedTraining:
    """A certified network, and a server that goes three times as far as the clients' mean."""
    return small_case(0, 1e-3, 64, "distance", server=3.0)


def _leaving_with_hinge() -> OrderedTraining:
    """Outputs up to 3 below their margin, 8 neurons: neurons cross kinks that W* has not crossed."""
    return loss_case(9, HINGE, 3.0, 8, "distance")


def _long_steps_with_hinge() -> OrderedTraining:
    """A certified network, steps 1.5 times as long as allowed."""
    return loss_case(6, HINGE, 1e-3, 64, "distance", longer=1.5)


def _eager_server_with_hinge() -> OrderedTraining:
    """A certified network, and a server that goes three times as far as the clients' mean."""
    return loss_case(3, HINGE, 1e-3, 64, "distance", server=3.0)


ANY_ORDER = Statement(
    id="fl-ntk/any-order",
    title="A certified checkpoint converges in any order, and its predictions are final to within 2 D |x|",
    kind=Kind.UPPER,
    source=Source(
        BEYOND,
        "docs/proofs/any_order.md#the-theorem",
        note="one point W* serves every order. A is the set of pairs (r, i) that are held at kinks. relu is "
        "homogeneous, so <grad f_i, W* - W> is exactly the residual as long as W and W* give w_r.x_i the same sign for "
        "every pair outside A; steps along gradients cannot change these signs. In a mean of models each step counts "
        "with its model's weight. The argument covers several outputs unchanged, but not the training of both layers.",
    ),
    hypotheses=(
        certified(
            "|w*_r.x_i| > D kappa_ri, with the sign that the checkpoint has, for every pair (r, i) outside A, with "
            "proven errors; kappa_ri <= |x_i|",
            lambda case: case.certificate,
        ),
        Hypothesis(
            "steps",
            "|E J J' E| <= 2 - eps at every step, for an eps > 0; J the gradients of its batch, E = diag(sqrt eta_i), "
            "eta_i the step of sample i",
            lambda case: 1 - case.longer,
        ),
        Hypothesis("server", "the server's step on a mean is at most 1", lambda case: 1 - case.server),
    ),
    forms={Form.NEW: Claim((sp.Integer(1), D**2, 2 * D))},
    constants=lambda case: {D: case.fit[1].distance},
    measure=_measure,
    symbols={
        D: "|W0 - W*|, the distance from the checkpoint W0 to W*, a point that fits all labels and holds the pairs of A"
    },
    left_formula=(
        "max_t eps sum_{in step t} eta r^2 / (|W(t) - W^*|^2 - |W(t+1) - W^*|^2)",
        "|W(T) - W^*|^2 + eps sum_{all steps} eta r^2",
        "|f(x,t) - f(x,0)| / |x|",
    ),
    says_left="left 1: eps sum eta r^2 of a step over its decrease of |W - W*|^2; left 2: |W - W*|^2 + eps sum eta r^2 "
    "in the end; left 3: changes of outputs over |x|; all in long precision, in an order that is random or chosen "
    "against the claim",
    families=ordered_families,
    mutants=(
        power(D, sp.Rational(11, 10)),
        replaced(D, D / 2, "half of the distance"),
        Mutant("predictions that do not move", lambda part: part / 100 if part == 2 * D else part),
    ),
    necessity={"certified": _leaving, "steps": _long_steps, "server": _eager_server},
)

STATEMENTS = (
    ANY_ORDER,
    replace(
        ANY_ORDER,
        id="fl-ntk/any-order-losses",
        title="A certified checkpoint converges in any order under Huber's loss, squared hinges, squares with a band",
        source=Source(
            BEYOND,
            "docs/proofs/losses_in_any_order.md#the-theorem",
            note="r_i = -l_i'(f_i) in place of the residual. W* minimises the loss of every sample; samples whose "
            "outputs stay where their loss is least need no row of C and no sign.",
        ),
        hypotheses=(
            certified(
                "the certificate for targets that minimise the losses of the kept samples, and the outputs of all "
                "others stay where their losses are least at every W with |W - W*| <= D, with proven errors",
                lambda case: case.certificate,
            ),
            *ANY_ORDER.hypotheses[1:],
        ),
        symbols={
            D: "|W0 - W*|, the distance from the checkpoint W0 to W*, a point that minimises all losses and holds "
            "the pairs of A"
        },
        says_left=ANY_ORDER.says_left.replace("eta r^2 of a step", "eta r^2 of a step, r the slope of the loss,"),
        families=(OTHER_LOSSES,),
        necessity={
            "certified": _leaving_with_hinge,
            "steps": _long_steps_with_hinge,
            "server": _eager_server_with_hinge,
        },
    ),
)
