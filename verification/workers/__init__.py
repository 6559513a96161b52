"""Processes that check statements side by side, and the units of work that they are given."""
