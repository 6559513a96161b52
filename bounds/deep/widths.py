"""Deep networks approach their limit kernel, and its exact dynamics, as m^(-1/2)."""

from bounds import BEYOND, Source
from bounds.deep.cases.deep_ladder import ERF, LEFT, RELU, SECTION, deep_ladders
from bounds.ladders.width_rate import HALF, Quantity, statistic, width_rate

KERNEL, LIMIT = "|H(0) - H_inf|_F / |H_inf|_F", "max_t |y_m(t) - y_inf(t)| / |r_0|"

STATEMENTS = (
    width_rate(
        "deep/widths",
        "Deep networks, all layers trained, approach the limit kernel and its exact dynamics as m^(-1/2)",
        (
            Quantity(KERNEL, HALF, statistic("kernel"), biased=False),
            Quantity(LIMIT, HALF, statistic("limit"), biased=False),
        ),
        source=Source(
            BEYOND,
            SECTION,
            note="the order is that of the kernel's own fluctuation; training adds terms of this order or smaller",
        ),
        says_left=f"{LEFT}{KERNEL}, and of {LIMIT}",
        note="exponents of both; ReLU of depth 2, erf of depth 3",
        families=deep_ladders(RELU, ERF),
        uses=("deep/kernel", "deep/linearised"),
    ),
)
