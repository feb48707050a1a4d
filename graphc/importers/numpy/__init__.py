"""Functions written with NumPy's names, as graphs and as compiled programs.

In: a function for NumPy: `graphc.jit(frontend="numpy")`.
Out: a compiled function, whose results and writes are the same as in NumPy.
Begin at `function`, then `tracing`.
"""
