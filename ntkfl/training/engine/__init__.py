"""The rounds of the training engine, with batches and local steps stacked over clients, and its measurements."""
