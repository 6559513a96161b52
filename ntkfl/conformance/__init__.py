"""Tests whether an implementation of a federated method is the method's algorithm.

The conformance kit is a set of cases: small federated problems, each with a method, its options and a reference
trajectory. An adapter is a Python file that runs a case with some implementation; its result is called the answer. The
verdict on an answer says whether it equals the reference.
"""

from ntkfl.conformance.comparing import Difference
from ntkfl.conformance.conformance_case import ConformanceCase
from ntkfl.conformance.conformance_verdict import (
    Agreement,
    CaseVerdict,
    Conformance,
    MethodVerdict,
    conformance,
    judged,
)
from ntkfl.conformance.kit import Answer, answers, write
from ntkfl.conformance.kit_cases import KitCase, cases, methods
from ntkfl.conformance.variants import Variant, of as variants_of
from ntkfl.imports import old_names

__all__ = [
    "Agreement",
    "Answer",
    "CaseVerdict",
    "Conformance",
    "ConformanceCase",
    "Difference",
    "KitCase",
    "MethodVerdict",
    "Variant",
    "answers",
    "cases",
    "conformance",
    "judged",
    "methods",
    "variants_of",
    "write",
]


__getattr__ = old_names(__name__, Case="ConformanceCase", Outcome="Agreement")
