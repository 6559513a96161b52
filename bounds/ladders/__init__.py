"""Ladders: one measurement at growing sizes, and exponents fitted to it."""
