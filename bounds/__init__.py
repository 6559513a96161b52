"""The statements: hypotheses, formulas in every form, left sides, sources. `bounds.get("fl-ntk/B.12")` finds one.

`bounds.load("my_theorem.py")` adds the statements of a file of yours.
"""

import sys
from typing import TYPE_CHECKING

from ntkfl.imports import MovedModules, lazy_names, warn_of_other_folders

MOVED = {
    "bounds.fl_ntk.families.own": "bounds.family, which has with_own",
    "bounds.fl_ntk.cases.antipodal": "bounds.fl_ntk.initial_kernel",
    "bounds.fl_ntk.method_training": "bounds.fl_ntk.cases.certified_method",
}
sys.meta_path.append(MovedModules(MOVED))
warn_of_other_folders("verification")

if TYPE_CHECKING:
    from bounds import initial_network as initial_network
    from bounds import mutants as mutants
    from bounds import strategies as strategies
    from bounds import symbols as symbols
    from bounds.brought import load as load
    from bounds.case import Case as Case
    from bounds.family import Family as Family
    from bounds.family import with_own as with_own
    from bounds.formula import Formula as Formula
    from bounds.hypothesis import Hypothesis as Hypothesis
    from bounds.hypothesis import Limit as Limit
    from bounds.listing import catalogue as catalogue
    from bounds.listing import find as find
    from bounds.listing import get as get
    from bounds.options import Options as Options
    from bounds.statement import Claim as Claim
    from bounds.statement import Statement as Statement
    from bounds.vocabulary import BEYOND as BEYOND
    from bounds.vocabulary import FEDGUCCI as FEDGUCCI
    from bounds.vocabulary import FL_NTK as FL_NTK
    from bounds.vocabulary import IMA as IMA
    from bounds.vocabulary import Change as Change
    from bounds.vocabulary import Convention as Convention
    from bounds.vocabulary import Form as Form
    from bounds.vocabulary import Kind as Kind
    from bounds.vocabulary import Nature as Nature
    from bounds.vocabulary import Outcome as Outcome
    from bounds.vocabulary import Provenance as Provenance
    from bounds.vocabulary import Source as Source

__getattr__, __dir__ = lazy_names(__name__, __file__, Draw="Family")
__all__ = __dir__()
