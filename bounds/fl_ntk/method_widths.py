"""Under every linear method finite networks approach the method's exact limit at infinite width as m^(-1/2)."""

from bounds import BEYOND, Source
from bounds.fl_ntk.cases.method_ladder import METHODS, method_families
from bounds.ladders.width_rate import HALF, Quantity, statistic, width_rate

STATEMENTS = (
    width_rate(
        "fl-ntk/method-widths",
        "Networks approach the exact limit of every linear method as m^(-1/2)",
        tuple(
            Quantity(f"max_t |y_m(t) - y_inf(t)| / |r_0| under {name}", HALF, statistic(name), biased=False)
            for name in METHODS
        ),
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#state-maps, docs/proofs/finite_width.md#powers-of-the-width",
            note="as for FL-NTK's algorithm (fl-ntk/W-outputs): H(0) - H_inf is of the order m^(-1/2), and so is the "
            "mean change of the outputs by neurons that cross kinks. Every method's state map passes both on to the "
            "outputs. With eleven widths a fit without the two smallest shows the bias; a next-order term would only "
            "fit noise",
        ),
        note="exponents of max_t |y_m(t) - y_inf(t)| / |r_0|: " + ", ".join(METHODS),
        says_left="log-log slopes over widths 2^8..2^13 of the RMS over networks of max_t |y_m(t) - y_inf(t)| / |r_0|, "
        "networks trained by the engine, all from the residual r_0",
        families=method_families,
        uses=("fl-ntk/W-outputs", "fl-ntk/state-maps", "fl-ntk/X.14"),
    ),
)
