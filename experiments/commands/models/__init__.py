"""Commands that train, compare and average models, and that test implementations of federated methods."""
