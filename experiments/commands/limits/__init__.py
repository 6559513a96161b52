"""Commands about the kernel regime: Gram matrices, rates, certificates, networks beside their limit."""
