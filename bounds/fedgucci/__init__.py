"""The statements of FedGuCci and the connectivity results beyond it, one file a numbered result."""

PAPER, PLACE = "fedgucci", 2  # the first part of its statements' ids; where the catalogue has them
