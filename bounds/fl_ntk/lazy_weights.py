"""Section 3.2, first observation: a round moves the weights of a neuron little; at which rate in the width?"""

from bounds.ladders.width_ladder import ladder_draws
from bounds.ladders.width_rate import HALF, Quantity, statistic, width_rate
from bounds.statement import FL_NTK, Form, Source

STATEMENTS = (
    width_rate(
        "fl-ntk/lazy-weights",
        "Weights change lazily: a round moves no neuron by more than the order of m^(-1/2)",
        (Quantity("max_{t,r} |u_r(t+1) - u_r(t)|", HALF, statistic("step")),),
        form=Form.STATED,
        source=Source(
            FL_NTK,
            "section 3.2, first observation",
            note="stated as |u(t+1) - u(t)| <= O(1/n) without a subscript. Read as one neuron's step: it is of the "
            "order m^(-1/2), and so below 1/n at the widths, n^4 and more, that the theorems ask for. The step of all "
            "neurons together does not depend on the width, so that the other reading is about the step sizes alone",
        ),
        note="exponent of the largest step of a neuron in the width",
        says_left="log-log slope over a ladder of widths of max over t and r of |u_r(t+1) - u_r(t)|",
        draws=ladder_draws,
        uses=("fl-ntk/B.12",),
    ),
)
