"""Programs for different sizes of one function: when they are made, which one runs.

In: the sizes of calls, as they come.
Out: the choice between NumPy, an exact program and a padded one.
Begin at `adapt` (what is padded), then `tiering` (what is compiled).
"""
