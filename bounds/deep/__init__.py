"""Statements on deep networks trained in every layer, in NTK parametrisation."""

PAPER, PLACE = "deep", 5  # the first part of the statements' ids; the paper's place in the catalogue
