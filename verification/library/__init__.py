"""Faults planted in the public library, one at a time: statements that stand on it must notice each of them."""

from collections.abc import Collection

from verification.library.mutant import LibraryMutant


def library_mutants(identifiers: Collection[str] | None = None) -> tuple[LibraryMutant, ...]:
    """All of them, or those that one of these statements should notice.

    Args:
        identifiers: ids of statements; None: all.
    """
    from verification.library import algorithm1, connectivity, grams, kernel_regime, training  # torch is slow to load

    found = [mutant for part in (grams, kernel_regime, algorithm1, connectivity, training) for mutant in part.MUTANTS]
    return tuple(mutant for mutant in found if identifiers is None or mutant.noticed_by in identifiers)
