"""Commands that train, compare and average models, and test implementations."""
