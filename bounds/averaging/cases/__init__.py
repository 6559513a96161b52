"""Cases of the statements about model averaging alone."""
