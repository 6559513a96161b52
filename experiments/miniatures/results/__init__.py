"""The page of miniatures: orderings that are seen, the two scales beside each other, and what is left out."""
