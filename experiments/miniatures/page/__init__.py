"""The page of miniatures: orderings that are seen, the two scales beside each other, what is left out."""
