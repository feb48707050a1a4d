"""Texts of the clone that are written from the code: tables, stubs, texts for `help`.

In: the registries of ops, functions, rules and conversions, and samples of the tests.
Out: files in docs/ and graphc/ir/functions/, or the names of those out of date.
Begin at `regenerate`, which lists them all. It works in a clone: wheels lack the parts.
"""
