"""Programs as modules that run, and records of what they compile.

In: the text of a program and the plan behind it.
Out: a function to call, its compilations in the log, errors on the user's line.
Begin at `programs`, then `failure` and `log`.
"""
