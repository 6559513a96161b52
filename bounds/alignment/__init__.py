"""Statements on networks aligned by permuting their hidden units (Entezari et al. 2022; Ainsworth et al. 2023)."""

PAPER, PLACE = "alignment", 4  # the first part of its statements' ids; where the catalogue has them
