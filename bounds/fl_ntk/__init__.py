"""The statements of FL-NTK. Each file has the statements of one topic."""

PAPER, PLACE = "fl-ntk", 1  # the first part of the ids of FL-NTK's statements, and the paper's place in the catalogue
