"""Cases that only the statements about model averaging are checked on."""
