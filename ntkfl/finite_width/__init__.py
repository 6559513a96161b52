"""Corrections of the limit at finite width: neurons near kinks, the order m^(-1/2) of the outputs, held neurons."""

from typing import TYPE_CHECKING

from ntkfl.imports import lazy_names

if TYPE_CHECKING:
    from ntkfl.finite_width.boundary_layer import pairs_near_kinks as pairs_near_kinks, sliding as sliding

__getattr__, __dir__ = lazy_names(__name__, __file__)
__all__ = __dir__()
