"""Plans printed as the source text of one Python module each."""
