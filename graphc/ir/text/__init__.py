"""Graphs as text, and text as graphs.

In: a graph, or the text of one.
Out: the same graph in the other form; errors name the line of the text.
Begin at `printer`, then `reader`, which is its inverse.
"""
