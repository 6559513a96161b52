"""The report about verdicts, studies and implementations, as a folder of static pages.

The pages need neither a network nor scripts.
"""
