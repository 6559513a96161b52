"""Sources beside the paper that several statements are from."""

from bounds import Provenance, Source
from bounds.vocabulary import BEYOND

JIAN_LIU = (
    "Jian and Liu, Widening the Network Mitigates the Impact of Data Heterogeneity on FedAvg (ICML 2025, arXiv "
    "2508.12576), as reported: only its abstract and a public summary were read, not its text"
)

EXACT = "docs/proofs/finite_width.md#exact-means-at-the-start"


def reported(label: str, note: str) -> Source:
    """Jian and Liu's results, whose text was not read."""
    return Source(JIAN_LIU, label, note=note, read=Provenance.REPORTED)


def on_width(note: str, section: str = "docs/proofs/finite_width.md#powers-of-the-width") -> Source:
    """The derivation of the powers of the width and their coefficients, as far as there is one."""
    return Source(BEYOND, section, note=note)
