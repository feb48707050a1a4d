"""Passes from a whole graph to a whole graph, or to a plan."""
