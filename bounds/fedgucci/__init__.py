"""The statements of FedGuCci and the connectivity results beyond it, one file for each numbered result."""

PAPER, PLACE = "fedgucci", 2  # the first part of these statements' ids; their place in the catalogue
