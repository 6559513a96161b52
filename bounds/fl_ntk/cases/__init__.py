"""Cases that only FL-NTK's statements use."""
