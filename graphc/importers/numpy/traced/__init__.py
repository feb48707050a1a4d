"""Arrays of functions of NumPy while these are traced, and all that is done to them.

In: sizes and values, and what NumPy asks of an array.
Out: arrays, whose contents are values; errors are those that NumPy has.
Begin at `arrays`, then `memory`.
"""
