"""Certificates that a given network converges: their computation and their records."""
