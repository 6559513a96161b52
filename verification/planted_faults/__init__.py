"""Faults that are planted in the public library, one at a time.

The statements that use the library must notice each fault: a verdict must differ from the recorded outcome.
"""

from collections.abc import Collection

from verification.planted_faults.fault import PlantedFault


def planted_faults(identifiers: Collection[str] | None = None) -> tuple[PlantedFault, ...]:
    """All planted faults, or those that one of these statements should notice.

    Args:
        identifiers: ids of statements; None: all statements.
    """
    from verification.planted_faults.catalogue import FAULTS  # torch is slow to load

    return tuple(fault for fault in FAULTS if identifiers is None or fault.noticed_by in identifiers)
