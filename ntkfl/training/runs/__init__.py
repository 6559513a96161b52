"""A training run: its rounds, its folder, its checkpoint, and reading it back."""
