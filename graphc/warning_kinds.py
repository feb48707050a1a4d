"""The warnings that graphc gives, each with a class of its own to filter it by."""

from graphc.entries import pointing


class GraphWarning(UserWarning):
    """A warning of graphc; `entry` is like the `entry` of a `GraphError`."""

    entry = ""

    def __str__(self) -> str:
        return pointing(super().__str__(), self.entry)


class ForkWarning(GraphWarning):
    """A forked process has lost JAX, and NumPy runs the program instead.

    >>> import graphc, warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", graphc.ForkWarning)
    """

    entry = "fork"


class CacheWarning(GraphWarning):
    """A file or directory of the cache cannot be used, and is left unused.

    >>> import graphc, warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", graphc.CacheWarning)
    """

    entry = "cache"


class RecompilationWarning(GraphWarning):
    """A function that specializes has been compiled for many sizes of one dim.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.vector("x", shape=("n",))
    >>> f = graphc.function([x], x + 1, dims={"n": graphc.Pad()})  # instead
    """

    entry = "recompilation"


class AheadWarning(GraphWarning):
    """A part of a program that cannot be compiled ahead of calls.

    >>> import graphc, warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", graphc.AheadWarning)
    """

    entry = "ahead"


class BlockWarning(GraphWarning):
    """Two calls of a function marked with `graphc.block` do not do the same.

    >>> import graphc, warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", graphc.BlockWarning)
    """

    entry = "block"


class SizeWarning(GraphWarning):
    """A size that is declared by a name, although it can only be one number.

    >>> import graphc.tensor as gt
    >>> x = gt.vector("x", shape=(4,))  # not "n", beside another array of 4 elements
    >>> y = x + gt.arange(4)
    """

    entry = "one-size"


class UnusedInputWarning(GraphWarning):
    """An input of a function that none of its outputs depends on.

    >>> import graphc, graphc.tensor as gt, pytest
    >>> x, unused = gt.vector("x"), gt.scalar("unused")
    >>> with pytest.warns(graphc.UnusedInputWarning):
    ...     f = graphc.function([x, unused], x + 1)
    """

    entry = "unused-input"
