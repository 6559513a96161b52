"""Section 3.2, second observation, second half: neurons whose pattern may change contribute little to a round."""

from bounds.ladders.width_ladder import ladder_draws
from bounds.ladders.width_rate import HALF, Quantity, statistic, width_rate
from bounds.statement import FL_NTK, Form, Source

STATEMENTS = (
    width_rate(
        "fl-ntk/lazy-remainder",
        "The neurons outside Q_i change the outputs by a part of the residual that falls with the width",
        (Quantity("|v_2| / |y - y(t)|", HALF, statistic("remainder")),),
        form=Form.STATED,
        source=Source(
            FL_NTK,
            "section 3.2, second observation",
            note="stated as |v_2| <= O(|y - y(t)|); by Claim B.6 it is of the order n R |y - y(t)| with R ~ m^(-1/2), "
            "so the exponent is -1/2",
        ),
        note="exponent of |v_2| / |y - y(t)| in the width",
        says_left="log-log slope over a ladder of widths of |v_2| / |y - y(t)| at the middle round, R being the "
        "largest movement of the run",
        draws=ladder_draws,
        uses=("fl-ntk/B.6",),
    ),
)
