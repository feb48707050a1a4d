"""Neural networks (`gt.nn`)."""
