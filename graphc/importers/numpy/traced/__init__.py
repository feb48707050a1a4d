"""Arrays in functions for NumPy while these are traced, and all operations on them.

In: sizes and values, and what NumPy asks of an array.
Out: arrays whose contents are values; errors are the same as NumPy's.
Begin at `arrays`, then `memory`.
"""
