"""Certificates that a given network converges: computation and records."""
