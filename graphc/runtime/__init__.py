"""Compiled functions: from inputs and outputs to results of calls.

In: inputs and outputs of a graph, and options.
Out: a function to call, its plan, its source and its log.
Begin at `compile` (`graphc.function`), then `pipeline`, `function`, `program_set`.
"""
