"""Ladders: the same measurement at growing sizes, and the exponents that follow."""
