"""The statements that are checked. A statement has hypotheses, formulas, a measured left side, and a source.

`bounds.get("fl-ntk/B.12")` returns one statement. `bounds.load("my_theorem.py")` adds the statements of your own file.
"""

import sys
from typing import TYPE_CHECKING

from ntkfl.imports import MovedModules, lazy_names, warn_of_other_folders

MOVED = {
    "bounds.family": "bounds.case",
    "bounds.fl_ntk.families.own": "bounds.case, which has with_own",
    "bounds.fl_ntk.cases.antipodal": "bounds.fl_ntk.initial_kernel",
    "bounds.fl_ntk.method_training": "bounds.fl_ntk.cases.certified_method",
}
sys.meta_path.append(MovedModules(MOVED))
warn_of_other_folders("verification")

if TYPE_CHECKING:
    from bounds import (
        initial_network as initial_network,
        mutants as mutants,
        strategies as strategies,
        symbols as symbols,
    )
    from bounds.case import Case as Case, Family as Family, with_own as with_own
    from bounds.formula import Formula as Formula
    from bounds.hypothesis import Hypothesis as Hypothesis, Limit as Limit
    from bounds.listing import catalogue as catalogue, find as find, get as get, load as load
    from bounds.options import Options as Options
    from bounds.statement import Claim as Claim, Statement as Statement
    from bounds.vocabulary import (
        BEYOND as BEYOND,
        FEDGUCCI as FEDGUCCI,
        FL_NTK as FL_NTK,
        IMA as IMA,
        Change as Change,
        Convention as Convention,
        Form as Form,
        Kind as Kind,
        Nature as Nature,
        Outcome as Outcome,
        Provenance as Provenance,
        Source as Source,
    )

__getattr__, __dir__ = lazy_names(__name__, __file__, Draw="Family")
__all__ = __dir__()
