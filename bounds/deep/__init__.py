"""Statements on networks of any depth: their limit kernels, their exact federated dynamics, and how wide is wide."""

PAPER, PLACE = "deep", 5  # the first part of its statements' ids; where the catalogue has them
