"""Findings, which are printed or proved forms that differ from what holds.

The modules make the page of findings, links to findings, and files that replay the findings.
"""

from typing import TYPE_CHECKING

from ntkfl.imports import lazy_names

if TYPE_CHECKING:
    from verification.findings.findings_page import (
        Finding as Finding,
        PaperFindings as PaperFindings,
        as_page as as_page,
        by_paper as by_paper,
        sentence as sentence,
    )

__getattr__, __dir__ = lazy_names(__name__, __file__)
__all__ = __dir__()
