"""The statements of FL-NTK, one file a numbered result; see the catalogue for how they are found."""

PAPER, PLACE = "fl-ntk", 1  # the first part of its statements' ids; where the catalogue has them
