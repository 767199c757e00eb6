"""Benchmarks of polymargin: `python -m benchmarks --help`, run from the project's root."""

import os

# Before NumPy is imported anywhere: BLAS and OpenMP read these once. Set them yourself to use more threads.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
