"""Cases that only FL-NTK's statements are checked on."""
