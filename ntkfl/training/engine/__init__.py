"""The rounds and the measurements of the training engine, which stacks the batches and steps of several clients."""
