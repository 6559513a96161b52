"""Statements on deep networks trained in every layer, in NTK parametrisation."""

PAPER, PLACE = "deep", 5  # the first part of these statements' ids, and their place in the catalogue
