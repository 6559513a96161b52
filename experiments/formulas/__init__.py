"""Formulas as people read them: LaTeX, MathML, and signs in the plain text of notes."""
