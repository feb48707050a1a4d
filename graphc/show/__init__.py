"""The plan as a picture: the data of it as JSON, a page that holds itself, an SVG.

A compiled function enters as what it tells of itself (`subject`); `collect` makes plain
records of it, which `page`, `drawing` and `difference` read. Begin with `records`.
"""
