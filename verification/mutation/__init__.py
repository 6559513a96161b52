"""The quality of the verifier, measured by the wrong versions (mutants) of its formulas that it notices."""

from verification.mutation.matrix import Fate, MutantFound, mutation_matrix, only_form, true_forms

__all__ = ["Fate", "MutantFound", "mutation_matrix", "only_form", "true_forms"]
