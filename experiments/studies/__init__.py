"""Studies: each answers, over a grid of cells, a question that a theorem or a figure of the papers raises."""
