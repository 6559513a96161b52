"""Training at infinite width: exact rounds, rates and limits of every method that is linear in the weights."""
