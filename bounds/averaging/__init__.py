"""The statements on model averaging (IMA), one file for each numbered result."""

PAPER, PLACE = "averaging", 3  # the first part of these statements' ids, and the place of this paper in the catalogue
