"""The language of kernels: its types, its values, its compiler, and the data it works on."""
