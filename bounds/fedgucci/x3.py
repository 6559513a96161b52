"""X3: at large width a group barrier is minus the variance between the clients' kernel predictions."""

from bounds import BEYOND, Source
from bounds.fedgucci.cases.group_ladder import GROUP_LADDERS, GroupLadder
from bounds.ladders.width_rate import HALF, THREE_QUARTERS, Quantity, width_rate


def _off_limit(ladder: GroupLadder) -> list:
    return [barrier - ladder.limit for barrier in ladder.samples("barrier")]


# With eleven widths the bias shows in the fit without the two smallest; a next-order term would only fit noise.
STATEMENTS = (
    width_rate(
        "fedgucci/X3",
        "The group barrier tends to -E_x Var_k of the kernel predictions: exponents -1/2, -3/4 and -1",
        (
            Quantity("|B_m - B_inf|", HALF, _off_limit, biased=False),
            Quantity("rms_x (f_FMA - f_WENS)", THREE_QUARTERS, lambda ladder: ladder.samples("gap"), biased=False),
            Quantity("|L(FMA) - L(WENS)|", 2 * HALF, lambda ladder: ladder.samples("excess"), biased=False),
        ),
        source=Source(BEYOND, "docs/proofs/connectivity.md#groups-of-wide-networks"),
        note="B = L(mean of the clients) - mean of their losses, for the squared loss. B_inf = -E_x Var_k f_k with "
        "f_k = Theta(x, X_k) Theta^-1 (I - (I - eta Theta)^K) y at infinite width; nothing is fitted. Reason for "
        "-1/2: the kernel at the start fluctuates, and kinks near the training points shift the mean. For -3/4: "
        "m^(1/2) neurons have a kink between the clients, and each adds m^(-1) with its own sign. For -1: averaged "
        "over x, all m neurons add m^(-3/2). The hidden layer is trained, d = 2, and x is uniform on the circle, "
        "integrated without sampling error: over M sampled x the last exponent is -1 only while m is small against "
        "M^2. Rows have the length 2^(1/2), which leaves the limit unchanged. For Gaussian rows in the plane E "
        "|w|^-2 is infinite: the last difference then has heavy tails and a further factor, the root of a "
        "logarithm (measured slopes of -.84 to -.90); from d = 3 on this moment is finite",
        claim_note="exponents in the width of |B_m - B_inf|, rms(f_FMA - f_WENS) and |L(FMA) - L(WENS)|",
        says_left="log-log slopes over widths 2^8..2^13 of the RMS over starts, three clients trained by gradient "
        "descent from one start with their hidden layers averaged",
        families=(GROUP_LADDERS,),
        uses=("fl-ntk/X.8", "fedgucci/F14"),
    ),
)
