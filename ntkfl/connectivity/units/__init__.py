"""Hidden units of networks of any depth: which weights are permuted together, and orders that align two networks."""
