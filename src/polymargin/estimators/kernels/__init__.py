"""Machines of kernels: which way they are solved, and back from feature space to coefficients on the rows."""
