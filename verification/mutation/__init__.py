"""The quality of the verifier: which wrong versions of its formulas it notices."""

from verification.mutation.matrix import Fate, MutantFound, mutation_matrix, only_form, true_forms

__all__ = ["Fate", "MutantFound", "mutation_matrix", "only_form", "true_forms"]
