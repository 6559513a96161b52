"""Networks in files of numpy, safetensors and torch: the arrays in a file, and which of them is which layer."""
