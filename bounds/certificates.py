"""The theorems that certify a concrete network, whichever paper they are from."""

from collections.abc import Callable, Mapping
from typing import Any

from bounds.fl_ntk.certificates.certificate import a_priori_certificate, require_memory
from bounds.fl_ntk.certificates.stable_step_certificate import expected, stable_step_certificate
from ntkfl.problem import Problem, Setup, Weights

__all__ = ["THEOREMS", "Theorem", "a_priori_certificate", "expected", "require_memory", "stable_step_certificate"]

# a theorem returns a certificate, with the members certified, residual_factor, shortfall and to_dict
Theorem = Callable[[Problem, Setup, Weights], Any]

THEOREMS: Mapping[str, Theorem] = {
    "fl-ntk/X.11 (B.3')": a_priori_certificate,
    "fl-ntk/X.12": stable_step_certificate,
}
