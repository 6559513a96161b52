"""The commands of the command line, a file for each.

Modules that are slow to import are imported inside the commands that need them.
"""
