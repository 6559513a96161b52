"""Linear connectivity of networks, and what averaging their weights does.

Barriers between two-layer ReLU networks, and of groups of them, are computed exactly. Networks are aligned by permuting
their units, and losses are evaluated on planes through three networks.
"""

import sys
from typing import TYPE_CHECKING

from ntkfl.imports import MovedModules, lazy_names

MOVED = {
    "ntkfl.connectivity.affine_network": "ntkfl.connectivity.network",
    "ntkfl.connectivity.torch_network": "ntkfl.connectivity, which has TorchNetwork",
    **dict.fromkeys(
        (f"ntkfl.connectivity.units.{name}" for name in ("matching", "numbers", "pairs", "torch_groups")),
        "ntkfl.connectivity.units.torch_alignment",
    ),
}
sys.meta_path.append(MovedModules(MOVED))

if TYPE_CHECKING:
    from ntkfl.connectivity.alignment import Alignment as Alignment, align as align, align_group as align_group
    from ntkfl.connectivity.barrier import (
        Barrier as Barrier,
        accuracy_barrier as accuracy_barrier,
        connectivity_loss as connectivity_loss,
        group_accuracy_barrier as group_accuracy_barrier,
        group_barrier as group_barrier,
        loss_barrier as loss_barrier,
    )
    from ntkfl.connectivity.curves import (
        grid_accuracy_barrier as grid_accuracy_barrier,
        grid_barrier as grid_barrier,
        grid_connectivity_loss as grid_connectivity_loss,
    )
    from ntkfl.connectivity.discrepancy import linear_cka as linear_cka, mean_discrepancy as mean_discrepancy
    from ntkfl.connectivity.ensembles import (
        averaging_gap as averaging_gap,
        evaluated_group_accuracy_barrier as evaluated_group_accuracy_barrier,
        evaluated_group_barrier as evaluated_group_barrier,
        locality as locality,
    )
    from ntkfl.connectivity.losses import (
        ABSOLUTE as ABSOLUTE,
        CROSS_ENTROPY as CROSS_ENTROPY,
        LOGISTIC as LOGISTIC,
        SQUARED as SQUARED,
    )
    from ntkfl.connectivity.low_loss_region import region_size as region_size, split_region_size as split_region_size
    from ntkfl.connectivity.network import (
        AffineTwoLayer as AffineTwoLayer,
        TwoLayer as TwoLayer,
        between as between,
        combination as combination,
    )
    from ntkfl.connectivity.network_files import (
        load_affine_network as load_affine_network,
        load_network as load_network,
        save_network as save_network,
    )
    from ntkfl.connectivity.planes import plane_losses as plane_losses, plane_through as plane_through
    from ntkfl.connectivity.two_layer_training import (
        draw_two_layer as draw_two_layer,
        train_two_layer as train_two_layer,
    )
    from ntkfl.connectivity.unit_orders import LeastBarrier as LeastBarrier, least_barrier as least_barrier
    from ntkfl.connectivity.units.torch_alignment import (
        TorchNetwork as TorchNetwork,
        align_torch as align_torch,
        align_torch_group as align_torch_group,
    )

__getattr__, __dir__ = lazy_names(__name__, __file__, sampled_connectivity_loss="connectivity_loss, which is exact")
__all__ = __dir__()
