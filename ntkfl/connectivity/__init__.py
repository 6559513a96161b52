"""Linear connectivity of two-layer ReLU networks: exact barriers, groups, planes, and what averaging models does."""

import sys
from typing import TYPE_CHECKING

from ntkfl.imports import MovedModules, lazy_names

MOVED = {
    "ntkfl.connectivity.affine_network": "ntkfl.connectivity.network",
    "ntkfl.connectivity.units.pairs": "ntkfl.connectivity.units.matching",
}
sys.meta_path.append(MovedModules(MOVED))

if TYPE_CHECKING:
    from ntkfl.connectivity.alignment import Alignment as Alignment
    from ntkfl.connectivity.alignment import align as align
    from ntkfl.connectivity.alignment import align_group as align_group
    from ntkfl.connectivity.barrier import (
        Barrier as Barrier,
    )
    from ntkfl.connectivity.barrier import (
        accuracy_barrier as accuracy_barrier,
    )
    from ntkfl.connectivity.barrier import (
        connectivity_loss as connectivity_loss,
    )
    from ntkfl.connectivity.barrier import (
        group_accuracy_barrier as group_accuracy_barrier,
    )
    from ntkfl.connectivity.barrier import (
        group_barrier as group_barrier,
    )
    from ntkfl.connectivity.barrier import (
        loss_barrier as loss_barrier,
    )
    from ntkfl.connectivity.curves import (
        grid_accuracy_barrier as grid_accuracy_barrier,
    )
    from ntkfl.connectivity.curves import (
        grid_barrier as grid_barrier,
    )
    from ntkfl.connectivity.curves import (
        grid_connectivity_loss as grid_connectivity_loss,
    )
    from ntkfl.connectivity.discrepancy import linear_cka as linear_cka
    from ntkfl.connectivity.discrepancy import mean_discrepancy as mean_discrepancy
    from ntkfl.connectivity.ensembles import averaging_gap as averaging_gap
    from ntkfl.connectivity.ensembles import (
        evaluated_group_accuracy_barrier as evaluated_group_accuracy_barrier,
    )
    from ntkfl.connectivity.ensembles import (
        evaluated_group_barrier as evaluated_group_barrier,
    )
    from ntkfl.connectivity.ensembles import locality as locality
    from ntkfl.connectivity.losses import (
        ABSOLUTE as ABSOLUTE,
    )
    from ntkfl.connectivity.losses import (
        CROSS_ENTROPY as CROSS_ENTROPY,
    )
    from ntkfl.connectivity.losses import (
        LOGISTIC as LOGISTIC,
    )
    from ntkfl.connectivity.losses import (
        SQUARED as SQUARED,
    )
    from ntkfl.connectivity.low_loss_region import region_size as region_size
    from ntkfl.connectivity.low_loss_region import split_region_size as split_region_size
    from ntkfl.connectivity.network import AffineTwoLayer as AffineTwoLayer
    from ntkfl.connectivity.network import TwoLayer as TwoLayer
    from ntkfl.connectivity.network import between as between
    from ntkfl.connectivity.network import combination as combination
    from ntkfl.connectivity.network_files import (
        load_affine_network as load_affine_network,
    )
    from ntkfl.connectivity.network_files import (
        load_network as load_network,
    )
    from ntkfl.connectivity.network_files import (
        save_network as save_network,
    )
    from ntkfl.connectivity.planes import plane_losses as plane_losses
    from ntkfl.connectivity.planes import plane_through as plane_through
    from ntkfl.connectivity.torch_network import TorchNetwork as TorchNetwork
    from ntkfl.connectivity.two_layer_training import draw_two_layer as draw_two_layer
    from ntkfl.connectivity.two_layer_training import train_two_layer as train_two_layer
    from ntkfl.connectivity.unit_orders import LeastBarrier as LeastBarrier
    from ntkfl.connectivity.unit_orders import least_barrier as least_barrier
    from ntkfl.connectivity.units.torch_alignment import align_torch as align_torch
    from ntkfl.connectivity.units.torch_groups import align_torch_group as align_torch_group

__getattr__, __dir__ = lazy_names(__name__, __file__, sampled_connectivity_loss="connectivity_loss, which is exact")
__all__ = __dir__()
