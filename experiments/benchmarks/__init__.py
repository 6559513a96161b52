"""Timings against a plain way of computing the same, each a script: `python -m experiments.benchmarks.NAME`."""
