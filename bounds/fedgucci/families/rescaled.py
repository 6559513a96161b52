"""A claim whose right side is a run of FedAvg, at steps that formulas give."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sympy as sp

from bounds import Claim
from bounds.fedgucci.cases.linear_case import LinearCase, beta
from bounds.formula import PRECISION, Constants
from bounds.symbols import eta_global, eta_local
from ntkfl.estimate import Estimate

RUN = sp.Symbol("FedAvg")  # key of the run in the constants: a function steps -> weights

LOCAL = eta_local * (1 + beta / 3)
EXTRA = beta / (6 + 2 * beta)
SERVER = eta_global * (1 + EXTRA)


@dataclass(frozen=True)
class RescaledFedAvg(Claim):
    """A claim whose parts are steps (local, server[, pull towards the anchors]); its value is a FedAvg run."""

    def evaluate(self, constants: Constants, *, bits: int = PRECISION) -> tuple[Estimate, ...]:
        """The global weights of every round of FedAvg with these steps, (T, p).

        Raises:
            KeyError: no FedAvg among the constants, or a symbol of a step without a value.
        """
        if RUN not in constants:
            raise KeyError("no value for FedAvg, a function of the local and the server's step that runs it")
        return (constants[RUN](*(_exactly(part, constants) for part in self.parts)),)


def _exactly(part: sp.Expr, constants: Mapping[Any, Any]) -> sp.Expr:
    """The value of a step, an exact number, at the floats of a case."""
    missing = sorted(str(s) for s in part.free_symbols if s not in constants)
    if missing:
        raise KeyError(f"no value for {', '.join(missing)} in the step {part}")
    values = {s: sp.Rational(*float(constants[s]).as_integer_ratio()) for s in part.free_symbols}
    return part.subs(values)


def run_constants(case: LinearCase) -> dict:
    """beta, the steps, and FedAvg on the case's data."""
    return case.steps | {RUN: case.fedavg_weights}
