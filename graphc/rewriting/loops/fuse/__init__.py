"""Work on the results of a loop, done within it slice by slice.

In: consumers of stacked results, or of large temporaries.
Out: carries with their first value, their step and their last form.
Begin at `consumers`, then `streamed_values` and `folds`.
"""
