"""Faults in barriers, connectivity losses, averages of networks, and FedGuCci on linear models."""

from dataclasses import replace
from typing import Any

from verification.planted_faults.fault import PlantedFault, argument_times, around, changed, times
from verification.planted_faults.planting import Fault


@around
def _last_piece_missing(right: Any, self: Any) -> Any:
    fewer = len(self.coefficients) > 1
    return right(replace(self, edges=self.edges[:-1], coefficients=self.coefficients[:-1]) if fewer else self)


def _scaled_barrier(factor: float) -> Fault:
    return changed(lambda barrier: replace(barrier, value=replace(barrier.value, value=factor * barrier.value.value)))


@around
def _member_missing(right: Any, networks: Any, *args: Any, **named: Any) -> Any:
    return right(networks[:-1] if len(networks) > 2 else networks, *args, **named)


BARRIER = "ntkfl.connectivity.barrier"
PIECES = "ntkfl.connectivity.paths.piecewise:PiecewisePolynomial"
LINEAR = "ntkfl.connectivity.linear_rounds"

MUTANTS = (
    PlantedFault("the last piece missing", f"{PIECES}.supremum", _last_piece_missing, "fedgucci/X1"),
    PlantedFault("the last piece missing", f"{PIECES}.integral", _last_piece_missing, "fedgucci/F12"),
    PlantedFault("1.0001 times too large", f"{BARRIER}:loss_barrier", _scaled_barrier(1.0001), "fedgucci/F1"),
    PlantedFault("1% too small", f"{BARRIER}:accuracy_barrier", _scaled_barrier(0.99), "fedgucci/F1b"),
    PlantedFault("1.0001 times too large", f"{BARRIER}:connectivity_loss", times(1.0001), "fedgucci/F12"),
    PlantedFault("1% too small", f"{BARRIER}:largest_gap", _scaled_barrier(0.99), "fedgucci/F1"),
    PlantedFault("1% too small", f"{BARRIER}:largest_loss", _scaled_barrier(0.99), "fedgucci/F1"),
    PlantedFault("the last member missing", f"{BARRIER}:group_barrier", _member_missing, "fedgucci/F14"),
    PlantedFault("the last member missing", f"{BARRIER}:group_accuracy_barrier", _member_missing, "fedgucci/F14"),
    PlantedFault("the last member missing", "ntkfl.connectivity.network:combination", _member_missing, "fedgucci/F14"),
    PlantedFault("beta 1% too large", f"{LINEAR}:fedgucci", argument_times(1, 1.01), "fedgucci/X4"),
    PlantedFault("1% too large", "ntkfl.connectivity.network:TwoLayer.outputs", times(1.01), "fedgucci/F1"),
    PlantedFault("half the region", "ntkfl.connectivity.low_loss_region:region_size", times(0.5), "fedgucci/F3"),
)
