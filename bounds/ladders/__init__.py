"""Ladders and the exponents that are fitted to them. A ladder is one quantity measured at several growing sizes."""
