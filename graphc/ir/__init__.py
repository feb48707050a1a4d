"""The intermediate representation: types, the names of functions, tables of rules.

In: dtypes and sizes; functions and rules, where ops declare them.
Out: types of tensors; `F` and `OP`, which find functions and primitives by name.
Begin at `types`, then `graph`, `sizes`, `params` and `text`.
"""
