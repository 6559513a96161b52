"""Ladders, which are the same measurement at growing sizes, and exponents that are fitted to the measured values."""
