"""Run-time assertions, barriers to transformations, and capacities."""
