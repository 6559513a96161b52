"""The statements of FedGuCci and the connectivity results beyond it. Each file has the statements of one topic."""

PAPER, PLACE = "fedgucci", 2  # the first part of these statements' ids, and the place of this paper in the catalogue
