"""What differs from its paper: the page of it, the address of each finding, and replay files of what shows them."""

from verification.findings.findings_page import Finding, PaperFindings, as_page, by_paper, sentence

__all__ = ["Finding", "PaperFindings", "as_page", "by_paper", "sentence"]
