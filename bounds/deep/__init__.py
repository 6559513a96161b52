"""Statements on deep networks trained in every layer, in NTK parametrisation."""

PAPER, PLACE = "deep", 5  # the first part of its statements' ids; where the catalogue has them
