"""Linear algebra (`gt.linalg`)."""
