"""Rules that replace parts of a graph by better ones, and what applies them."""
