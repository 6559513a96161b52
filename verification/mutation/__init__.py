"""The quality of the verifier, measured by the wrong versions (mutants) of the statements' formulas that the verifier
notices.
"""

from verification.mutation.matrix import Fate, MutantFound, mutation_matrix, only_form, true_forms

__all__ = ["Fate", "MutantFound", "mutation_matrix", "only_form", "true_forms"]
