"""Rows as the solvers see them: feature maps of kernels, columns moved towards zero."""
