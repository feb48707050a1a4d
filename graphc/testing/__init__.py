"""Tests of how often functions are compiled.

In: compiled functions, and the most compilations that a test allows.
Out: an error before the compilation that is one too many.
Begin at `plugin` (the fixture of pytest); `assert_compiles` stands here.
"""

from collections.abc import Generator
from contextlib import contextmanager

from graphc.errors import TooManyCompilationsError, graph_error
from graphc.runtime.driver.stance import CompilationLimit, require_functions, within


@contextmanager
def assert_compiles(*functions: object, at_most: int) -> Generator[None]:
    """Within: the functions are compiled so many times at most, in this thread.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> f = graphc.jit(lambda x: x * 2)
    >>> with graphc.assert_compiles(f, at_most=4):
    ...     for size in range(2, 30):
    ...         value = f(np.ones(size, "float32"))

    The call that would be one more raises before it compiles anything, with what has
    changed in it: a `TooManyCompilationsError`, which is an AssertionError too. Without
    functions, those of all that graphc compiles are counted. A program of several
    segments has a compilation for each; `f.compile(...)` is asked for, and not counted.
    """
    if type(at_most) is not int or at_most < 0:
        problem = "at_most is a number of compilations"
        raise graph_error(problem, op="assert_compiles", got=repr(at_most))
    require_functions(functions, "assert_compiles")
    with within(CompilationLimit(at_most, functions, TooManyCompilationsError)):
        yield
