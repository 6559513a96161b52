"""A training run: rounds, folder and checkpoint, and functions that read it back."""
