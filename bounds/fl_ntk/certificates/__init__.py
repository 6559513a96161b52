"""Certificates that a given network converges: how they are computed, and the records of their results."""
