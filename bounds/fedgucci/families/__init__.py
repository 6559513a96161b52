"""Families of cases for FedGuCci's statements."""
