"""A loss or an accuracy along the segment between two networks, as exact pieces, with bounds of its supremum."""
