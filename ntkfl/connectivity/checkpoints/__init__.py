"""Networks in files of numpy, safetensors and torch: the arrays in a file, and the layer of each array."""
