"""Symbols, hypotheses and left sides that several of FedGuCci's statements share."""
