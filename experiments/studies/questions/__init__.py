"""The studies of this project, a file for each: a question, and the grid of runs that answers it."""
