"""Control flow: the primitives that hold graphs, a layer below rewriting and transform.

In: values, and functions or graphs of one step or one branch.
Out: nodes that hold a closed body each, and how both backends print them.
Begin at `scan`, then `switch` and `call`.
"""
