"""Networks in files of numpy, safetensors and torch: the arrays in a file are read and assigned to layers."""
