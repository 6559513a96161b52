"""Cases of the statements of several papers."""
