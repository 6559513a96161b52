"""Statements on the outer rate of local SGD (Khaled et al. 2025)."""

PAPER, PLACE = "outer", 6  # the first part of these statements' ids; their place in the catalogue
