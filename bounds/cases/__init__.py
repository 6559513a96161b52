"""Cases on which the statements of several papers are checked."""
