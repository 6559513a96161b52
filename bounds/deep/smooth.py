"""A smooth deep network follows the kernel regime of its own kernel up to 1/m."""

from bounds import BEYOND, Source
from bounds.deep.cases.deep_ladder import ERF, LEFT, SECTION, deep_ladders
from bounds.ladders.width_rate import ONE, Quantity, statistic, width_rate

OWN, DRIFT = "max_t |y_m(t) - y_own(t)| / |r_0|", "|H(T) - H(0)|_F / |H_inf|_F"

STATEMENTS = (
    width_rate(
        "deep/smooth",
        "A smooth deep network keeps its own kernel, and follows it, up to 1/m",
        (
            Quantity(OWN, ONE, statistic("own"), biased=False),
            Quantity(DRIFT, ONE, statistic("drift"), biased=False),
        ),
        source=Source(
            BEYOND,
            SECTION,
            note="twice the exponent of the literature's bounds O(m^(-1/2)), which are true, but not sharp for smooth "
            "activations",
        ),
        says_left=f"{LEFT}{OWN}, y_own the kernel regime of H(0), and of {DRIFT}",
        note="exponents of both; erf of depth 3",
        families=deep_ladders(ERF),
        uses=("deep/linearised",),
    ),
)
