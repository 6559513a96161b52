"""Certificates that a given network converges: how they are found, and what they record."""
