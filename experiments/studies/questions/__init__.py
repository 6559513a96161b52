"""The studies: one question, and the grid of runs that answers it, a file."""
