"""Defaults of the whole process, and of a thread: `graphc.config`."""

import os
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from math import inf
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from graphc.errors import NOWHERE, GraphError, graph_error
from graphc.ir.integers import integer_or_none
from graphc.ir.namespace import misspelled
from graphc.ir.types import DType, dtype_of

Real = float  # which is also the name of a setting
Casting = Literal["exact", "safe", "same_kind"]
CASTINGS = ("exact", "safe", "same_kind")


def check_casting(casting: object, op: str = "function") -> Casting:
    """`casting`, which must be one of the rules for arguments of other dtypes."""
    if not isinstance(casting, str) or casting not in CASTINGS:
        expected = f"one of {', '.join(map(repr, CASTINGS))}"
        problem = f"casting cannot be {casting!r}"
        raise graph_error(problem, op=op, expected=expected)
    return casting  # type: ignore[return-value]


class _OfThread(threading.local):
    """The default float of a thread, where it is not that of the process."""

    float: DType | None = None


_OWN = _OfThread()


@contextmanager
def default_float(name: str) -> Generator[None]:
    """Within, in this thread: floats whose dtype is not said are of this one."""
    before, _OWN.float = _OWN.float, dtype_of(name)
    try:
        yield
    finally:
        _OWN.float = before


class Config:
    """Defaults that hold for the whole process.

    >>> import graphc, graphc.tensor as gt
    >>> graphc.config.float = "float64"
    >>> gt.vector("x").dtype
    dtype('float64')
    >>> graphc.config.float = "float32"

    `float` is the dtype of floats whose dtype is not said: "float32" as in JAX;
    set it to "float64" for NumPy's. `dims` is what is done about sizes that vary where
    `graphc.function` gets none, and `casting` what is done about arguments of other
    dtypes: see there. `max_bytes` is the most that an array may take which is made of a
    few numbers, as `zeros(k)`, draws and broadcasts are: larger ones are refused, when
    the graph is built or called, before anything is allocated. It is 2**38 (256 GiB).
    `cache_dir` is a directory in which programs and executables are kept for other
    processes, or None, and `cache_bytes` the most that it takes, 2**32 (4 GiB): files
    that were not used for longest leave. `progress` is whether a terminal shows a
    compilation that takes seconds. `process_wait` is how many seconds processes that
    share a mesh wait for each other at a call, before it is an error: 300.

    Each is first what the environment says: GRAPHC_FLOAT, GRAPHC_DIMS, GRAPHC_CASTING,
    GRAPHC_MAX_BYTES, GRAPHC_CACHE_DIR, GRAPHC_CACHE_BYTES, GRAPHC_PROGRESS (0 or 1),
    GRAPHC_PROCESS_WAIT.
    """

    __slots__ = (  # and no other
        *("_cache_bytes", "_cache_dir", "_casting", "_float", "_max_bytes"),
        *("_dims", "_process_wait", "_progress"),
    )

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._float = dtype_of("float32")
        self._dims: Any = "auto"
        self._max_bytes = 2**38
        self._casting: Casting = "safe"
        self._cache_dir: str | None = None
        self._cache_bytes = 2**32
        self._process_wait = 300.0
        self._progress = True
        for name, read in _READ.items():
            variable = f"GRAPHC_{name.upper()}"
            text = environment.get(variable)
            if text:
                self._set(variable, name, text, read)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_") or hasattr(type(self), name):
            object.__setattr__(self, name, value)
            return
        raise self._no_setting(name)

    if not TYPE_CHECKING:  # which knows all settings

        def __getattr__(self, name: str) -> NoReturn:
            raise self._no_setting(name)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={_shown(getattr(self, name))}" for name in _READ)
        return f"<graphc.config: {settings}>"

    def _no_setting(self, name: str) -> AttributeError:
        known = sorted(_READ)
        meant = misspelled(name, known) or f"; there are {', '.join(known)}"
        return AttributeError(f"graphc.config has no setting {name!r}{meant}")

    def _set(
        self, variable: str, name: str, text: str, read: Callable[[str], object]
    ) -> None:
        """Set one from the environment. Raises GraphError that names the variable."""
        try:
            setattr(self, name, read(text))
        except (KeyError, ValueError) as error:  # a GraphError among them
            message = error.args[0] if isinstance(error, GraphError) else ""
            raise _refused(variable, text, message, _EXPECTED.get(name, "")) from None

    @property
    def cache_dir(self) -> str | None:
        """Where programs and executables are kept; it need not be there yet."""
        return self._cache_dir

    @cache_dir.setter
    def cache_dir(self, path: str | PathLike[str]) -> None:
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
    def cache_bytes(self, most: object) -> None:
        number = integer_or_none(most)
        if number is None or number < 0:
            problem = "cache_bytes is a number of bytes"
            raise graph_error(problem, op="config", got=repr(most))
        self._cache_bytes = number

    @property
    def dims(self) -> object:
        """The policy for sizes that vary, where `graphc.function` gets none."""
        return self._dims

    @dims.setter
    def dims(self, declared: object) -> None:
        if isinstance(declared, Mapping):
            hint = "policies for single sizes are dims={...} of a function"
            problem = "dims is one policy for all sizes of all functions"
            raise graph_error(problem, op="config", got=repr(declared), hint=hint)
        for check in _CHECKS:
            check(declared, "config")
        self._dims = declared

    def check_dims_by(self, check: Callable[[object, str], None]) -> None:
        """Have `dims` checked from now on, by what knows all policies.

        Raises GraphError where the environment has said something else.
        """
        _CHECKS.append(check)
        try:
            check(self._dims, "config")
        except GraphError as error:
            expected = _EXPECTED["dims"]
            raise _refused("GRAPHC_DIMS", self._dims, error.args[0], expected) from None

    @property
    def casting(self) -> Casting:
        """Which arguments of other dtypes are taken: "exact", "safe" or "same_kind"."""
        return self._casting

    @casting.setter
    def casting(self, rule: object) -> None:
        self._casting = check_casting(rule, "config")

    @property
    def float(self) -> DType:
        """The default floating-point dtype."""
        thread_default = _OWN.float
        return self._float if thread_default is None else thread_default

    @float.setter
    def float(self, name: object) -> None:
        if isinstance(name, (bool, int, float, tuple)) or name is None:
            problem = f"the default float cannot be {name!r}"
            raise graph_error(problem, op="config", expected=_EXPECTED["float"])
        try:
            dtype = dtype_of(name)
        except GraphError:
            problem = f"the default float cannot be {name!r}"
            error = graph_error(problem, op="config", expected=_EXPECTED["float"])
            raise error from None
        if dtype.kind != "f" and dtype.name != "bfloat16":
            problem = f"the default float cannot be {dtype.name}"
            raise graph_error(problem, op="config", expected=_EXPECTED["float"])
        self._float = dtype

    @property
    def max_bytes(self) -> int:
        """The most bytes of an array that is made of a few numbers."""
        return self._max_bytes

    @max_bytes.setter
    def max_bytes(self, most: object) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 16:
            problem = "max_bytes is an integer, at least 16"
            raise graph_error(problem, op="config", got=repr(most))
        self._max_bytes = most

    @property
    def process_wait(self) -> Real:
        """The most seconds that processes wait for each other at a call."""
        return self._process_wait

    @process_wait.setter
    def process_wait(self, seconds: object) -> None:
        numeric = isinstance(seconds, (int, Real)) and not isinstance(seconds, bool)
        if not numeric or not 0 < seconds < inf:  # type: ignore[operator]
            problem = "process_wait is a number of seconds, above 0"
            raise graph_error(problem, op="config", got=repr(seconds))
        self._process_wait = Real(seconds)  # type: ignore[arg-type]

    @property
    def progress(self) -> bool:
        """Whether a terminal shows a compilation that takes seconds."""
        return self._progress

    @progress.setter
    def progress(self, shown: object) -> None:
        if not isinstance(shown, bool):
            raise graph_error("progress is True or False", op="config", got=repr(shown))
        self._progress = shown


def _shown(setting: object) -> str:
    return repr(setting.name if isinstance(setting, np.dtype) else setting)


_CHECKS: list[Callable[[object, str], None]] = []


def _refused(variable: str, text: str, message: str, expected: str = "") -> GraphError:
    """The error of a variable of the environment: no line of the user's is at fault."""
    said = [x for x in message.splitlines() if x.startswith("  expected: ")]
    return graph_error(
        f"the environment variable {variable} cannot be {text!r}",
        op="config",
        expected=expected or "".join(said).removeprefix("  expected: "),
        where=NOWHERE,
    )


# How the text of a variable of the environment becomes the value of a setting.
_READ: dict[str, Callable[[str], Any]] = {
    "float": str,
    "dims": str,
    "casting": str,
    "max_bytes": int,
    "cache_dir": str,
    "cache_bytes": int,
    "process_wait": Real,
    "progress": {"0": False, "1": True}.__getitem__,
}
_EXPECTED = {
    "dims": "auto, specialize, pad or bound",
    "float": "float16, float32, float64 or bfloat16",
    "max_bytes": "an integer, at least 16",
    "cache_bytes": "a number of bytes",
    "process_wait": "a number of seconds, above 0",
    "progress": "0 or 1",
}
config: Config = Config()
