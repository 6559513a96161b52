"""A ReLU network's kernel moves by m^(-1/2), not by 1/m: neurons cross kinks, whichever layers are trained."""

import sympy as sp

from bounds import Change, Claim, Form, Kind, Source, Statement
from bounds.deep.cases.kink_ladder import KINK_LADDERS
from bounds.mutants import replaced
from bounds.vocabulary import BEYOND

third = sp.Symbol("mu_3", positive=True)  # of a standard Gaussian readout weight
THIRD = 2 * sp.sqrt(2 / sp.pi)


STATEMENTS = (
    Statement(
        id="deep/kinks",
        title="The kernel of a two-layer ReLU network, both layers trained, moves by m^(-1/2) in the mean",
        kind=Kind.RATE,
        source=Source(
            BEYOND,
            "docs/proofs/finite_width.md#deep-networks",
            note="slopes of |H(T) - H(0)| over few widths show a drift of order 1/m. There the fluctuation "
            "is larger, whose exponent moves from -1 to -3/4; the mean is of order m^(-1/2), by X.9: a neuron with "
            "readout weight a moves by |a| times as much, so that |a| times as many change their pattern, and counts "
            "a^2 in the kernel. E[H(T) - H(0)] = E|a|^3 B m^(-1/2) + O(1/m), with B that of X.9 along the residuals of "
            "the limit of both layers. So the literature's O(m^(-1/2)) is sharp for ReLU, and for smooth activations "
            "it is not (deep/smooth)",
        ),
        forms={Form.NEW: Claim(sp.log(third), note="E|a|^3 = 2 (2/pi)^(1/2) = 1.596; its logarithm")},
        constants=lambda ladder: {third: THIRD},
        measure=lambda ladder: ladder.multiple.log(),
        symbols={third: "third absolute moment of a standard Gaussian: of the readout weights at the start"},
        left_formula="log lim_{m -> inf} sqrt(m) tr(B^T E (H(T) - H(0))) / |B|_F^2",
        says_left="m^(1/2) E[H(T) - H(0)] along B, over |B|^2: its logarithm, extrapolated from widths 2^8..2^13",
        families=(KINK_LADDERS,),
        mutants=(
            replaced(third, 1, "readouts of +-1", Change.CONSTANT),
            replaced(third, sp.sqrt(2 / sp.pi), "E|a|: kernels that do not weigh a neuron by a^2"),
            replaced(third, third / 2, "half as many neurons that cross", Change.CONSTANT),
            replaced(third, 2 * third, "twice as many neurons that cross", Change.CONSTANT),
        ),
        uses=("fl-ntk/X.9", "deep/kernel"),
    ),
)
