"""Times of this project beside other packages and the machine's limit: `ntkfl bench`."""
