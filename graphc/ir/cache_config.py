"""The part of the configuration that is about the cache of other processes."""

import os
from typing import Any

from graphc.errors import graph_error

ROOM = 2**32  # bytes


class CacheConfig:
    """The directory of the cache, and the most bytes of the files in it."""

    __slots__ = "_cache_bytes", "_cache_dir"

    def __init__(self) -> None:
        self._cache_dir: str | None = None
        self._cache_bytes = ROOM

    @property
    def cache_dir(self) -> str | None:
        """Where programs and executables are kept; it need not be there yet."""
        return self._cache_dir

    @cache_dir.setter
    def cache_dir(self, path: Any) -> None:
        folder = os.fspath(path) if isinstance(path, os.PathLike) else path
        if folder is not None and (not isinstance(folder, str) or not folder):
            problem = "cache_dir is the path of a directory, or None"
            raise graph_error(problem, op="config", got=repr(path))
        self._cache_dir = folder

    @property
    def cache_bytes(self) -> int:
        """The most bytes of the files in `cache_dir`."""
        return self._cache_bytes

    @cache_bytes.setter
    def cache_bytes(self, most: Any) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 0:
            problem = "cache_bytes is a number of bytes"
            raise graph_error(problem, op="config", got=repr(most))
        self._cache_bytes = most
