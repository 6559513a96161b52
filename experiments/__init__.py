"""Commands, studies, reports and benchmarks: whatever runs the other three packages."""

import sys

from ntkfl.imports import MovedModules

sys.meta_path.append(
    MovedModules({"experiments.two_layer_training": "in ntkfl.connectivity: draw_two_layer, train_two_layer"})
)
