"""Is an implementation the algorithm? Cases with reference trajectories, and what an adapter's answers are."""

from ntkfl.conformance.case import Case
from ntkfl.conformance.catalogue import KitCase, cases, methods
from ntkfl.conformance.comparing import Difference
from ntkfl.conformance.kit import write
from ntkfl.conformance.variants import Variant
from ntkfl.conformance.variants import of as variants_of
from ntkfl.conformance.verdict import (
    CaseVerdict,
    Conformance,
    MethodVerdict,
    Outcome,
    conformance,
    judged,
)

__all__ = [
    "Case",
    "CaseVerdict",
    "Conformance",
    "Difference",
    "KitCase",
    "MethodVerdict",
    "Outcome",
    "Variant",
    "cases",
    "conformance",
    "judged",
    "methods",
    "variants_of",
    "write",
]
