"""Rules that replace parts of a graph by better ones, and what applies them."""

import graphc.ops  # noqa: F401  (rules tell ops apart: all are there before)
