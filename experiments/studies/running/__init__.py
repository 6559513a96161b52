"""How the cells of a study are measured and kept: on this machine's processes or a Dask cluster."""
