"""The machine that checks any statement.

It evaluates both sides of a claim on concrete cases, with proved or measured errors (enclosures), and gives a verdict.
It also judges wrong versions of each formula (mutants), and computes certificates of networks.
"""

from typing import TYPE_CHECKING

from ntkfl.imports import lazy_names, refuse_other_folders

refuse_other_folders("bounds")

if TYPE_CHECKING:
    from verification import kernels as kernels, search as search
    from verification.certification import certify as certify
    from verification.engine import verify as verify, verify_all as verify_all
    from verification.verdict import Verdict as Verdict

__getattr__, __dir__ = lazy_names(__name__, __file__)
__all__ = __dir__()
