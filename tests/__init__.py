"""The tests. Their arrays are small, so more OpenBLAS threads would only busy-wait."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported
