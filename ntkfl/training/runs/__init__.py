"""A training run: its rounds, its folder and its checkpoint, and how to read it back."""
