"""Families of rules, a module for each.

In: a node that the pattern of a rule matches.
Out: a better value in its place.
Begin at `cleanup`; `python docs/rewriting_table.py` lists all in docs/rewriting.md.
"""
