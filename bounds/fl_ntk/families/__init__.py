"""Families of data and networks on which FL-NTK's bounds are sharp or fail."""
