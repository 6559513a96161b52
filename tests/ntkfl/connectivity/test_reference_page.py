"""Tests that the reference lists every name of `ntkfl.connectivity` that users need."""

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "connectivity.md"
WANTED = """
alignment: align align_group balanced permuted unit_rows
barrier: loss_barrier accuracy_barrier connectivity_loss group_barrier group_accuracy_barrier
curves: interpolation_curve grid_barrier grid_accuracy_barrier grid_connectivity_loss
discrepancy: mean_discrepancy linear_cka
ensembles: ensemble_outputs averaging_gap locality evaluated_group_barrier evaluated_group_accuracy_barrier
five_factors: error_factors
kernel_regime_fedgucci: equivalent_setup overshoot
unit_orders: least_barrier
low_loss_region: region_size split_region_size
network: TwoLayer between combination AffineTwoLayer without_biases with_constant
network_files: load_network load_affine_network save_network
planes: plane_through plane_losses plane_grid
quadratic_clients: heterogeneity
units.torch_alignment: align_torch align_torch_group unit_numbers units_and_parts match permuted relaxed Pair distance
units.torch_alignment: TorchNetwork
units.walk: units_of Units
"""


@pytest.mark.parametrize("line", WANTED.split("\n")[1:-1])
def test_the_reference_has_it(line):
    module, _, names = line.partition(": ")
    listed = re.findall(r"automodule:: ntkfl\.connectivity\.([\w.]+)\n   :members:", PAGE.read_text(encoding="utf-8"))
    assert module in listed
    for name in names.split():
        public = getattr(importlib.import_module(f"ntkfl.connectivity.{module}"), name)
        assert public.__module__ == f"ntkfl.connectivity.{module}" and public.__doc__
