"""Parts of a graph that are alike, printed once as a function."""
