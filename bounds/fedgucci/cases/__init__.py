"""Cases that only FedGuCci's statements are checked on."""
