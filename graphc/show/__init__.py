"""The plan as a picture: the data of it as JSON, a page that holds itself, an SVG.

In: the plan, source, rewrites and compilations of a compiled function.
Out: JSON with a schema, one page of HTML, an SVG, and the difference of two plans.
Begin at `records` (the data), then `collect`, then `page` or `drawing`.
"""
