"""The statements on model averaging (IMA), one file a numbered result."""

PAPER, PLACE = "averaging", 3  # the first part of its statements' ids; where the catalogue has them
