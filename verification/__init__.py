"""The machine that checks any statement: enclosures, trials, mutants, certificates, verdicts."""

from verification.certification import certify
from verification.engine import verify, verify_all
from verification.verdict import Verdict

__all__ = ["Verdict", "certify", "verify", "verify_all"]
