"""Calls of functions written for JAX, and the programs that serve these calls.

In: arguments as JAX takes them.
Out: results as JAX returns them; models in files; a report of what was compiled.
Begin at `program`, then `traced_family` and `exact`.
"""
