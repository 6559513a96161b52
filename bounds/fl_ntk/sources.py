"""Sources beside the paper that several statements are from."""

from bounds.statement import BEYOND, Provenance, Source

JIAN_LIU = (
    "Jian and Liu, Widening the Network Mitigates the Impact of Data Heterogeneity on FedAvg (ICML 2025, arXiv "
    "2508.12576), as reported: only its abstract and a public summary were read, not its text"
)


def reported(label: str, note: str) -> Source:
    """Jian and Liu's results, whose text was not read."""
    return Source(JIAN_LIU, label, note=note, read=Provenance.REPORTED)


def of_section_7(note: str) -> Source:
    """The notes that the powers of the width and their coefficients are from."""
    return Source(BEYOND, "section 7 of our notes", note=note)
