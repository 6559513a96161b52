"""Models by name, one file a family."""
