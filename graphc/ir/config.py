"""Defaults of the whole process, and of a thread: `graphc.config`."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from graphc.errors import graph_error
from graphc.ir.types import DType, dtype_of

Casting = Literal["exact", "safe", "same_kind"]
CASTINGS = ("exact", "safe", "same_kind")


def check_casting(casting: Any) -> Casting:
    """`casting`, which must be one of the rules for arguments of other dtypes."""
    if not isinstance(casting, str) or casting not in CASTINGS:
        expected = f"one of {', '.join(map(repr, CASTINGS))}"
        problem = f"casting cannot be {casting!r}"
        raise graph_error(problem, op="function", expected=expected)
    return casting  # type: ignore[return-value]


class _OfThread(threading.local):
    """The default float of a thread, where it is not that of the process."""

    float: DType | None = None


_OWN = _OfThread()


@contextmanager
def default_float(name: str) -> Iterator[None]:
    """Within, in this thread: floats whose dtype is not said are of this one."""
    before, _OWN.float = _OWN.float, dtype_of(name)
    try:
        yield
    finally:
        _OWN.float = before


class Config:
    """Defaults that hold for the whole process.

    `float` is the dtype of floats whose dtype is not said: "float32" as in JAX;
    set it to "float64" for NumPy's. `dims` is what is done about sizes that vary where
    `graphc.function` is not told, and `casting` what is done about arguments of other
    dtypes: see there. `max_bytes` is the most that an array may take which is made of a
    few numbers, as `zeros(k)`, draws and broadcasts are: larger ones are refused, when
    the graph is built or called, before anything is allocated. It is 2**38 (256 GiB).
    `cache_dir` is a directory in which programs and executables are kept for other
    processes, or None; at first it is that of the environment, `GRAPHC_CACHE_DIR`.
    """

    __slots__ = "_cache_dir", "_casting", "_float", "_max_bytes", "dims"  # and no other

    def __init__(self) -> None:
        self._float = dtype_of("float32")
        self.dims: Any = "auto"
        self._max_bytes = 2**38
        self._casting: Casting = "safe"
        self._cache_dir = os.environ.get("GRAPHC_CACHE_DIR") or None

    @property
    def cache_dir(self) -> str | None:
        """Where programs and executables are kept; it need not be there yet."""
        return self._cache_dir

    @cache_dir.setter
    def cache_dir(self, path: Any) -> None:
        given = os.fspath(path) if isinstance(path, os.PathLike) else path
        if given is not None and (not isinstance(given, str) or not given):
            problem = "cache_dir is the path of a directory, or None"
            raise graph_error(problem, op="config", got=repr(path))
        self._cache_dir = given

    @property
    def casting(self) -> Casting:
        """Which arguments of other dtypes are taken: "exact", "safe" or "same_kind"."""
        return self._casting

    @casting.setter
    def casting(self, rule: Any) -> None:
        self._casting = check_casting(rule)

    @property
    def float(self) -> DType:
        """The default floating-point dtype."""
        own = _OWN.float
        return self._float if own is None else own

    @float.setter
    def float(self, name: Any) -> None:
        dtype = dtype_of(name)
        if dtype.kind != "f" and dtype.name != "bfloat16":
            raise graph_error(f"the default float cannot be {dtype.name}")
        self._float = dtype

    @property
    def max_bytes(self) -> int:
        """The most bytes of an array that is made of a few numbers."""
        return self._max_bytes

    @max_bytes.setter
    def max_bytes(self, most: Any) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 16:
            raise graph_error("max_bytes is an integer, at least 16", got=repr(most))
        self._max_bytes = most


config = Config()
