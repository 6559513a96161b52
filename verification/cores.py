"""The number of cores, in a module that loads nothing else: studies need no verification to start."""


def cores() -> int:
    """How many cores this process may use, by its affinity and the limits of its control group."""
    import joblib  # slow to load

    return joblib.cpu_count()
