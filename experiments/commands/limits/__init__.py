"""Commands about the kernel regime: Gram matrices, rates, certificates, and networks compared with their limit."""
