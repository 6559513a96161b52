"""Gram matrices of two-layer ReLU networks, of deep networks and of any network; activation patterns and spectra.

Every function takes samples x, then the network's weights if it needs them, then other samples z, then options.
"""

from ntkfl.gram.deep import ACTIVATIONS, convolutional, convolutional_estimate, deep, deep_estimate
from ntkfl.gram.degeneracy import (
    Degeneracy,
    ParallelRows,
    degenerate_pairs,
    equal_rows,
    require_distinct,
    require_positive,
    require_unparallel,
)
from ntkfl.gram.finite_width import empirical, finite, finite_estimate, initial, jacobian_gram, local_gram
from ntkfl.gram.limit import angles, infinite, infinite_estimate
from ntkfl.gram.patterns import activations, doubtful, safe_neurons
from ntkfl.gram.spectrum import largest_eigenvalue, smallest_eigenvalue
from ntkfl.gram.tiles import Features, nystroem

__all__ = [
    "ACTIVATIONS",
    "Degeneracy",
    "Features",
    "ParallelRows",
    "activations",
    "angles",
    "convolutional",
    "convolutional_estimate",
    "deep",
    "deep_estimate",
    "degenerate_pairs",
    "doubtful",
    "empirical",
    "equal_rows",
    "finite",
    "finite_estimate",
    "infinite",
    "infinite_estimate",
    "initial",
    "jacobian_gram",
    "largest_eigenvalue",
    "local_gram",
    "nystroem",
    "require_distinct",
    "require_positive",
    "require_unparallel",
    "safe_neurons",
    "smallest_eigenvalue",
]
