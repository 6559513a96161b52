"""Formulas for readers: LaTeX, MathML, and mathematical signs in the plain text of notes."""
