"""JAX's cache of executables, kept in graphc's directory while graphc compiles.

JAX has one such cache per process, in the directory that an option names. Here the
option is set for one thread, from the start of tracing to the end of the compilation.
Before the first of the threads that compile and after the last, JAX is made to forget
which directory it has opened, so that the user's settings hold for everything else that
is compiled. JAX writes files in place; here it writes whole files, since it would
neither read nor replace a file that a killed process has begun.
"""

import importlib
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType

from graphc.ir.config import config
from graphc.ir.forks import RenewedLock
from graphc.runtime.cache.program_cache import EXECUTABLES, is_usable, make_room
from graphc.runtime.cache.whole_files import write_whole
from graphc_serving import private_jax

_PUBLIC = "jax.experimental.compilation_cache.compilation_cache"
_DIRECTORY = "jax_compilation_cache_dir"
_ALL = {  # nothing is too small, or compiled too quickly
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


class _ThreadUndo(threading.local):
    """The options that a thread has to undo."""

    undo: ExitStack | None = None


_OWN = _ThreadUndo()


class Executables:
    """Keeps what is compiled between `enter` and `leave`; `jax` None keeps nothing."""

    def __init__(self, jax: ModuleType | None = None) -> None:
        self._jax = jax

    def enter(self) -> None:
        """Keep the compilations of this thread from now on."""
        if self._jax is None or config.cache_dir is None or _OWN.undo is not None:
            return
        path = Path(config.cache_dir, EXECUTABLES)
        if is_usable(path):
            _OWN.undo = _set_options(self._jax, path)

    def leave(self) -> None:
        """Restore JAX's own settings."""
        undo, _OWN.undo = _OWN.undo, None
        if undo is not None:
            undo.close()
            if config.cache_dir is not None:
                make_room(config.cache_dir)

    @contextmanager
    def kept(self) -> Generator[None]:
        """Keep the compilations of this thread within the context."""
        self.enter()
        try:
            yield
        finally:
            self.leave()


class _EntryFile:
    """A file of the cache, written as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.exists, self.read_bytes = path.exists, path.read_bytes

    def write_bytes(self, content: bytes) -> None:
        write_whole(self._path, content)


class _Entries:
    """The folder of the cache, as far as JAX uses it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __truediv__(self, name: str) -> _EntryFile:
        return _EntryFile(self._path / name)


def _set_options(jax: ModuleType, path: Path) -> ExitStack:
    """Set options of JAX for this thread, except those that this JAX lacks."""
    states = private_jax.options(jax)
    with ExitStack() as stack:
        for name, value in ({_DIRECTORY: str(path)} | _ALL).items():
            if name in states:
                stack.enter_context(states[name](value))
        if _DIRECTORY in states:
            _OPENED.enter(path)
            stack.callback(_OPENED.leave)
        return stack.pop_all()


class _OpenedCache:
    """JAX's cache of executables, opened in graphc's directory for some threads."""

    def __init__(self) -> None:
        self._lock = RenewedLock()
        self._threads = 0
        self._path: Path | None = None

    def enter(self, path: Path) -> None:
        """Open the cache in `path`, the directory that this thread's option names."""
        with self._lock:
            if self._path != path:
                _forget_cache()
                private_jax.keep_entries_in(_Entries(path))
                self._path = path
            self._threads += 1

    def leave(self) -> None:
        """Close the cache after the last thread."""
        with self._lock:
            self._threads -= 1
            if self._threads == 0:
                self._path = None
                _forget_cache()


def _forget_cache() -> None:
    importlib.import_module(_PUBLIC).reset_cache()


_OPENED = _OpenedCache()
