"""Facts about a graph; nothing here changes one.

In: a graph, or the device that it is to run on.
Out: when each value is known, which results share memory, which thresholds pay.
Begin at `binding_time`, then `cost`.
"""
