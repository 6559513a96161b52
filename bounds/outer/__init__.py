"""Statements on the outer rate of local SGD (Khaled et al. 2025)."""

PAPER, PLACE = "outer", 6  # the first part of its statements' ids; where the catalogue has them
