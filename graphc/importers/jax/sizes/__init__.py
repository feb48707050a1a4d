"""Sizes of calls: which axes vary together, from traces or in a user's words.

In: calls of a function, and traces at several sizes.
Out: a pattern of sizes, and one jaxpr for all sizes of it.
Begin at `pattern`, then `family` and `template`.
"""
