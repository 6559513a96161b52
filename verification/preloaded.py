"""Imported by the process that workers are forked from, see `verification.processes`: their code and the catalogue.

And what would take each of them seconds: the library that the digits are in, and the passes of the simulators, which
are compiled without starting a thread that a fork would lose.
"""

import sklearn.datasets  # noqa: F401

import verification.worker  # noqa: F401
from bounds.listing import catalogue
from ntkfl import client_passes, compiled_neurons

catalogue()
compiled_neurons.passes()
client_passes.passes("float64")
