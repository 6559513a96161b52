"""Hidden units of networks of any depth: which weights move together, and where they fit best."""
