"""Programs that are kept: within the process, and in files for other processes.

In: a graph with its options, or a program to keep.
Out: the key of the program, and the program where it was made before.
Begin at `graph_key`, then `program_cache`; `prepared` is a program that can run.
"""
