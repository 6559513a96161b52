"""Measure and store the cells of a study, by this machine's processes or a Dask cluster."""
