"""Sources beside the paper that several statements are from."""

from bounds.statement import BEYOND, Source

REPORTED = (
    "Jian and Liu, Widening the Network Mitigates the Impact of Data Heterogeneity on FedAvg (ICML 2025, arXiv "
    "2508.12576), as reported: only its abstract and a public summary were read, not its text"
)


def of_section_7(note: str) -> Source:
    """The notes that the powers of the width and their coefficients are from."""
    return Source(BEYOND, "section 7 of our notes", note=note)
