"""Quantities of FL-NTK's proofs that several statements measure."""
