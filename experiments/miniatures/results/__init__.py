"""The page of results of miniatures: which orderings are seen, on one scale and on two, and what is left out."""
