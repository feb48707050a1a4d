"""Questions about loops: what a step reads, writes, and passes on.

In: a scan and the values around it.
Out: which position along an axis belongs to which iteration, or no answer.
Begin at `scan_view`, then `access`, `affine_reads` and `axis_rules`.
"""
