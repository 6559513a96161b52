"""Corrections of the infinite-width limit at finite width m.

They are the terms of order m^(-1/2) in the outputs, the number of neurons near the kinks of their activations, and
neurons that training holds at kinks.
"""

from typing import TYPE_CHECKING

from ntkfl.imports import lazy_names

if TYPE_CHECKING:
    from ntkfl.finite_width.boundary_layer import pairs_near_kinks as pairs_near_kinks, sliding as sliding

__getattr__, __dir__ = lazy_names(__name__, __file__)
__all__ = __dir__()
