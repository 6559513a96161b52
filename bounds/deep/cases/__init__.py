"""What statements on deep networks are checked on."""
