"""Cases that only the statements about model averaging use."""
