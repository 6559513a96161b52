"""The benchmarks of `ntkfl bench`.

They measure this project's computations, other packages, and the machine's limit.
"""
