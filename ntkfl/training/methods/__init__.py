"""Federated methods, one file each: a module with NAME and a function `method(objective, **options) -> Method`."""
