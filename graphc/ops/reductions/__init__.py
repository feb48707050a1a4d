"""Reductions and scans along axes, and statistics."""
