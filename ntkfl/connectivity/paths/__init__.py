"""A loss along a segment between networks, exactly: its pieces, their roots and signs, and bounds of its supremum."""
