"""The statements on model averaging (IMA), one file for each numbered result."""

PAPER, PLACE = "averaging", 3  # the first part of these statements' ids; their place in the catalogue
