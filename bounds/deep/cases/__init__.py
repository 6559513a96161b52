"""The cases of statements on deep networks."""
