"""The rounds of the training engine: batches and local steps, stacked over clients, and measurements."""
