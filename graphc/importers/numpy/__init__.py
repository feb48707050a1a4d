"""Functions written with NumPy's names, as graphs and as compiled programs."""
