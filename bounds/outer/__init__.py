"""Statements on the outer rate of local SGD (Khaled et al. 2025)."""

PAPER, PLACE = "outer", 6  # the first part of these statements' ids, and the place of this paper in the catalogue
