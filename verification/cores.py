"""The number of cores of this machine.

The module loads nothing else, so that studies can start without the rest of this package.
"""


def cores() -> int:
    """The number of cores that this process may use, by its affinity and the limits of its control group."""
    import joblib  # slow to load

    return joblib.cpu_count()
