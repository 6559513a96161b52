"""Cases that statements of several papers are checked on."""
