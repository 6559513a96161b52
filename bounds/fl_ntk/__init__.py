"""The statements of FL-NTK, one file for each numbered result; `bounds.listing` finds them."""

PAPER, PLACE = "fl-ntk", 1  # the first part of its statements' ids; where the catalogue has them
