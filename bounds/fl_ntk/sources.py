"""Sources of statements other than the paper, each used by several statements."""

from bounds import BEYOND, Provenance, Source

JIAN_LIU = (
    "Jian and Liu, Widening the Network Mitigates the Impact of Data Heterogeneity on FedAvg (ICML 2025, arXiv "
    "2508.12576), as reported: only its abstract and a public summary were read, not its text"
)

EXACT = "docs/proofs/finite_width.md#exact-means-at-the-start"


def reported(label: str, note: str) -> Source:
    """A result of Jian and Liu, read in a report and not in their text."""
    return Source(JIAN_LIU, label, note=note, read=Provenance.REPORTED)


def on_width(note: str, section: str = "docs/proofs/finite_width.md#powers-of-the-width") -> Source:
    """The source of a statement on powers of the width or their coefficients."""
    return Source(BEYOND, section, note=note)
