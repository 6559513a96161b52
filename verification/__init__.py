"""The machine that checks any statement: enclosures, trials, mutants, certificates, verdicts."""

from ntkfl.imports import refuse_other_folders

refuse_other_folders("bounds")

from verification.certification import certify
from verification.engine import verify, verify_all
from verification.verdict import Verdict

__all__ = ["Verdict", "certify", "verify", "verify_all"]
