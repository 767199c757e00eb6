"""Dual ascent on rows of the kernel matrix, which are made when they are needed."""
