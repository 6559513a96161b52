"""The rounds of the training engine: clients' batches and local steps, stacked over clients, and what is measured."""
