"""The statements of FedGuCci and the connectivity results beyond it, a file for each topic."""

PAPER, PLACE = "fedgucci", 2  # the first part of these statements' ids; their place in the catalogue
