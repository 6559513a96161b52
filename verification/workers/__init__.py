"""Processes that check statements side by side, and what is handed to them."""
