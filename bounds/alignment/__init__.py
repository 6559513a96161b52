"""Statements on networks aligned by permuting their hidden units (Entezari et al. 2022; Ainsworth et al. 2023)."""

PAPER, PLACE = "alignment", 4  # the first part of these statements' ids, and the place of this paper in the catalogue
