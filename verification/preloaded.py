"""Imported by the process that workers are forked from, see `verification.processes`: their code and the catalogue."""

import verification.worker  # noqa: F401
from bounds.listing import catalogue

catalogue()
