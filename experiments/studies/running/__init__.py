"""Measure and store the cells of a study, by processes of this machine or by a Dask cluster."""
