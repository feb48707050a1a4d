"""The plan as a picture: its data as JSON, a self-contained page, an SVG.

In: the plan, source, rewrites and compilations of a compiled function.
Out: JSON with a schema, one page of HTML, an SVG, and the difference of two plans.
Begin at `records` (the data), then `collect`, then `page` or `drawing`.
"""
