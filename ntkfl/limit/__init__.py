"""Training at infinite width: exact rounds of every method that is linear in the weights, their rates and limits."""
