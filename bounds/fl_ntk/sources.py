"""Sources of statements other than the paper. Each source is used by several statements."""

from bounds import BEYOND, Provenance, Source

JIAN_LIU = (
    "Jian and Liu, Widening the Network Mitigates the Impact of Data Heterogeneity on FedAvg (ICML 2025, arXiv "
    "2508.12576), as reported: only its abstract and a public summary were read, not its text"
)

ON_WIDTH = Source(BEYOND, "docs/proofs/finite_width.md#powers-of-the-width")
EXACT = Source(BEYOND, "docs/proofs/finite_width.md#exact-means-at-the-start")


def reported(label: str) -> Source:
    """The source of a result of Jian and Liu, which was read in a report and not in their text."""
    return Source(JIAN_LIU, label, read=Provenance.REPORTED)
