"""The statements of FL-NTK, one file a numbered result; see the catalogue for how they are found."""
