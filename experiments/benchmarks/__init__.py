"""Scripts that time this project against plain programs: `python -m experiments.benchmarks.NAME`."""
