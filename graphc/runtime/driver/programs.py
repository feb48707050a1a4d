"""Emitted programs as modules that run, and a store where functions share them.

Code that builds the same graph again and again, as PyMC does for each call of some of
its functions, gets a program of the same text each time. Functions that share a store
find the program loaded, with all that JAX has compiled for it, and are told the sizes
that functions before them had.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import local
from typing import Any

from graphc.ir.forks import RenewedLock
from graphc.runtime.cache.jax_cache import Executables
from graphc.runtime.driver import xla
from graphc.runtime.driver.failure import Program
from graphc.runtime.driver.log import Announcements, Compilation
from graphc.runtime.driver.stance import with_stance

MOST = 64  # programs of a store, or sizes of a program: the last ones are kept


@dataclass
class LoadedProgram:
    """A module that runs, and the compilations of all functions that have used it.

    `deferred_sizes` are those for which functions have changed to another program. A
    loaded program holds no graph, nor anything that holds one.
    """

    program: Program
    module: Any
    jax: Any  # None on NumPy
    announced: Announcements
    compilations: list[Compilation] = field(default_factory=list)
    deferred_sizes: deque[dict[str, int]] = field(
        default_factory=lambda: deque(maxlen=MOST)
    )


def load(program: Program) -> LoadedProgram:
    """Execute the text of a program as a module of its own."""
    module, announced = program.load(), Announcements()
    jax: Any = getattr(module, "jax", None)
    module.compiling = announced.compiling
    if jax is not None:
        xla.listen(jax)
        xla.skip_long_programs()
        announced.traces = lambda: not jax.config.jax_disable_jit
        announced.executables = Executables(jax)
        if hasattr(module, "on_device"):
            module.on_device = xla.faster_on_device(jax, module.on_device)
        if hasattr(module, "agree_between"):
            module.agree_between = with_stance(module.agree_between, announced)
    return LoadedProgram(program, module, jax, announced)


Load = Callable[[Program], LoadedProgram]


class _Chosen(local):
    """The way in which functions made by this thread load their programs."""

    load: Load = staticmethod(load)


_CHOSEN = _Chosen()


def loader() -> Load:
    """Return the function by which functions that are made now load their programs."""
    return _CHOSEN.load


class Programs:
    """A store of loaded programs, by their texts; it keeps those used last."""

    def __init__(self, most: int = MOST) -> None:
        self._most, self._lock = most, RenewedLock()
        self._loaded: OrderedDict[tuple[str, str], LoadedProgram] = OrderedDict()

    def load(self, program: Program) -> LoadedProgram:
        """Return the program as loaded before, or load it now.

        A program with functions that have no text is like no other, and is not kept.
        """
        if program.foreigns:
            return load(program)
        key = program.text, program.filename
        with self._lock:
            loaded = self._loaded.pop(key, None) or load(program)
            self._loaded[key] = loaded  # it is the last one now
            while len(self._loaded) > self._most:
                self._loaded.popitem(last=False)
            return loaded

    @contextmanager
    def shared(self) -> Generator[None]:
        """Within: functions that are made share their programs through this store."""
        outer, _CHOSEN.load = _CHOSEN.load, self.load
        try:
            yield
        finally:
            _CHOSEN.load = outer
