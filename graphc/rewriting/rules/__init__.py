"""Families of rules, a module for each.

In: a node that the pattern of a rule matches.
Out: a better value in its place.
Begin at `cleanup`; docs/rewriting.md has a table of all.
"""
