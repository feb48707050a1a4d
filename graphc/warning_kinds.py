"""The warnings that graphc gives, each a class of its own, to be filtered by it."""

from graphc.entries import pointing


class GraphWarning(UserWarning):
    """A warning of graphc; `entry` is as that of a `GraphError`."""

    entry = ""

    def __str__(self) -> str:
        return pointing(super().__str__(), self.entry)


class ForkWarning(GraphWarning):
    """NumPy does in a forked process for which JAX is lost."""

    entry = "fork"


class CacheWarning(GraphWarning):
    """A file or directory of the cache that cannot be used, and is not."""

    entry = "cache"


class RecompilationWarning(GraphWarning):
    """A function that specializes has been compiled for many sizes of one dim."""

    entry = "recompilation"


class AheadWarning(GraphWarning):
    """A part of a program that cannot be compiled ahead of calls."""

    entry = "ahead"


class BlockWarning(GraphWarning):
    """Two calls of a function marked with `graphc.block` do not do the same."""

    entry = "block"


class SizeWarning(GraphWarning):
    """A size that is declared by a name, and that can be one number only."""

    entry = "one-size"


class UnusedInputWarning(GraphWarning):
    """An input of a function that none of its outputs depends on."""

    entry = "unused-input"
