"""Section 3.2, second observation, first half: activation patterns hardly change; at which rate in the width?"""

from bounds.ladders.width_ladder import ladder_draws
from bounds.ladders.width_rate import HALF, Quantity, statistic, width_rate
from bounds.statement import FL_NTK, Form, Source

STATEMENTS = (
    width_rate(
        "fl-ntk/lazy-patterns",
        "Activation patterns remain roughly the same: |H_perp|_F falls with the width",
        (Quantity("max_k |H(t,k)^perp|_F", HALF, statistic("complement")),),
        form=Form.STATED,
        source=Source(
            FL_NTK,
            "section 3.2, second observation",
            note="stated as |H_perp|_F <= O(1); it follows from 4 n R with R ~ m^(-1/2), so the exponent is -1/2",
        ),
        note="exponent of |H_perp|_F in the width",
        says_left="log-log slope over a ladder of widths of max_k |H(t,k)^perp|_F at the middle round, R being the "
        "largest movement of the run",
        draws=ladder_draws,
        uses=("fl-ntk/B.11",),
    ),
)
