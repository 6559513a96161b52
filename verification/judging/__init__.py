"""The way from cases to an outcome.

A case is admitted or rejected by the hypotheses of a claim. Both sides of the claim are compared on admitted cases, the
comparisons are counted, and a violation is confirmed by a second computation.
"""
