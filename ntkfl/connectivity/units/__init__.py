"""Hidden units of networks of any depth: weights that move together, and the orders that bring two networks nearest."""
