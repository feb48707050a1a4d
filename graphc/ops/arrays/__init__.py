"""Functions that make, join, take apart and rearrange arrays."""
