"""Functions prepared ahead of their calls: lowered, compiled, written to files.

In: a compiled function, and the sizes of calls to come.
Out: executables, or a model file that `graphc_serving` reads.
Begin at `export`, then `exporter`, `lowering` and `file_steps`.
"""
