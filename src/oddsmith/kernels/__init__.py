"""How one block is summed fast: the array-API reference, and compiled kernels for large dense and CSR blocks."""
