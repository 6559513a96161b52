"""Commands, studies, reports and benchmarks, all of which use the packages ntkfl, bounds and verification."""

import sys
from typing import TYPE_CHECKING

from ntkfl.imports import MovedModules, lazy_names

if TYPE_CHECKING:
    from experiments import studies as studies
    from experiments.pictures import as_bytes as as_bytes, drawn as drawn
    from experiments.studies import Axis as Axis, Quantity as Quantity, Study as Study, answers as answers

__getattr__, __dir__ = lazy_names(__name__, __file__)
__all__ = __dir__()

sys.meta_path.append(
    MovedModules({"experiments.two_layer_training": "in ntkfl.connectivity: draw_two_layer, train_two_layer"})
)
