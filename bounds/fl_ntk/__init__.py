"""The statements of FL-NTK, a file for each topic."""

PAPER, PLACE = "fl-ntk", 1  # the first part of the ids of FL-NTK's statements; the paper's place in the catalogue
