"""Tests, whose arrays are small: more threads of OpenBLAS would wait, awake."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported
