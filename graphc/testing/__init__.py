"""Tests of how often functions are compiled.

In: compiled functions, and the most compilations that a test allows.
Out: an error before the first compilation beyond that.
Begin at `plugin` (the pytest fixture); `assert_compiles` stands here.
"""

from collections.abc import Generator
from contextlib import contextmanager

from graphc.errors import TooManyCompilationsError, graph_error
from graphc.runtime.driver.stance import (
    CompilationLimit,
    apply_limit,
    require_functions,
)


@contextmanager
def assert_compiles(*functions: object, at_most: int) -> Generator[None]:
    """Within: the functions are compiled at most `at_most` times, in this thread.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> f = graphc.jit(lambda x: x * 2)
    >>> with graphc.assert_compiles(f, at_most=4):
    ...     for size in range(2, 30):
    ...         value = f(np.ones(size, "float32"))

    A call that would need one compilation more raises before it compiles anything, and
    says what has changed: a `TooManyCompilationsError`, which is an AssertionError too.
    Without functions, all compilations by graphc are counted. A program of several
    segments has a compilation for each; those that `f.compile(...)` makes are asked
    for, and not counted.
    """
    if type(at_most) is not int or at_most < 0:
        problem = "at_most is a number of compilations"
        raise graph_error(problem, op="assert_compiles", got=repr(at_most))
    require_functions(functions, "assert_compiles")
    with apply_limit(CompilationLimit(at_most, functions, TooManyCompilationsError)):
        yield
