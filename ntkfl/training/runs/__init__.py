"""Training runs: they are trained, kept in a folder, resumed, read back, and summarised."""
