"""Calls of functions of JAX, and the programs that serve them.

In: arguments as JAX takes them.
Out: results as JAX gives them; models in files; a report of what was compiled.
Begin at `program`, then `traced_family` and `exact`.
"""
