"""A loss along a segment between networks, exactly: its pieces, their roots and signs, enclosures of the whole."""
