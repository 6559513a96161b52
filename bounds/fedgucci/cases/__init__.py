"""Cases that only FedGuCci's statements use."""
