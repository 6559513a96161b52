"""Hidden units of networks of any depth: which weights move together, and the order in which they fit best."""
