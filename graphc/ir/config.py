"""`graphc.config`: defaults of the whole process, and of single threads."""

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
from graphc.ir.types import DType, dtype_of, is_float

Real = float  # `float` is also the name of a setting
Casting = Literal["exact", "safe", "same_kind"]
CASTINGS = ("exact", "safe", "same_kind")


def check_casting(casting: object, op: str = "function") -> Casting:
    """Return `casting`, if it is a rule for arguments of other dtypes."""
    if not isinstance(casting, str) or casting not in CASTINGS:
        expected = f"one of {', '.join(map(repr, CASTINGS))}"
        problem = f"casting cannot be {casting!r}"
        raise graph_error(problem, op=op, expected=expected)
    return casting  # type: ignore[return-value]


class _ThreadDefault(threading.local):
    """The default float of a thread; None where the default of the process holds."""

    float: DType | None = None


_OF_THREAD = _ThreadDefault()


@contextmanager
def default_float(name: str) -> Generator[None]:
    """Use another default dtype for floats, in this thread only."""
    before, _OF_THREAD.float = _OF_THREAD.float, dtype_of(name)
    try:
        yield
    finally:
        _OF_THREAD.float = before


class Config:
    """Defaults that hold for the whole process.

    >>> import graphc, graphc.tensor as gt
    >>> graphc.config.float = "float64"
    >>> gt.vector("x").dtype
    dtype('float64')
    >>> graphc.config.float = "float32"

    `float` is the dtype of floats whose dtype is not given: "float32", as in JAX. Set
    it to "float64" for NumPy's. `dims` says how sizes that vary are treated where
    `graphc.function` is not told, and `casting` how arguments of other dtypes are: see
    there. `max_bytes` is the most memory that an array made from a few numbers may
    take, as `zeros(k)`, draws and broadcasts are. Larger ones are refused when the
    graph is built or called, before anything is allocated. The default is 2**38 (256
    GiB).

    `cache_dir` is a directory that keeps programs and executables for other processes,
    or None. `cache_bytes` is the most space that they take there, 2**32 (4 GiB) by
    default: the files that have been unused for longest are deleted. `progress` says
    whether a terminal shows compilations that take seconds. `process_wait` is for how
    many seconds processes that share a mesh wait for each other at a call before they
    raise an error: 300 by default.

    The environment can set other defaults: GRAPHC_FLOAT, GRAPHC_DIMS, GRAPHC_CASTING,
    GRAPHC_MAX_BYTES, GRAPHC_CACHE_DIR, GRAPHC_CACHE_BYTES, GRAPHC_PROGRESS (0 or 1),
    GRAPHC_PROCESS_WAIT.
    """

    __slots__ = (  # no other settings can be set
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
        for name, read in _READERS.items():
            variable = f"GRAPHC_{name.upper()}"
            text = environment.get(variable)
            if text:
                self._set_from_text(variable, name, text, read)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_") or hasattr(type(self), name):
            object.__setattr__(self, name, value)
            return
        raise self._unknown_setting_error(name)

    if not TYPE_CHECKING:  # type checkers know all settings

        def __getattr__(self, name: str) -> NoReturn:
            raise self._unknown_setting_error(name)

    def __repr__(self) -> str:
        texts = {name: _setting_text(getattr(self, name)) for name in _READERS}
        settings = ", ".join(f"{name}={text}" for name, text in texts.items())
        return f"<graphc.config: {settings}>"

    def _unknown_setting_error(self, name: str) -> AttributeError:
        known = sorted(_READERS)
        meant = misspelled(name, known) or f"; there are {', '.join(known)}"
        return AttributeError(f"graphc.config has no setting {name!r}{meant}")

    def _set_from_text(
        self, variable: str, name: str, text: str, read: Callable[[str], object]
    ) -> None:
        """Set one from the environment. Raises GraphError that names the variable."""
        try:
            setattr(self, name, read(text))
        except (KeyError, ValueError) as error:  # a GraphError among them
            message = error.args[0] if isinstance(error, GraphError) else ""
            expected = _EXPECTED.get(name, "")
            raise _environment_error(variable, text, message, expected) from None

    @property
    def cache_dir(self) -> str | None:
        """The directory for programs and executables; it need not exist yet."""
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
        """The most bytes that the files in `cache_dir` take together."""
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
            hint = "give policies for single sizes to a function, as dims={...}"
            problem = "dims is one policy for all sizes of all functions"
            raise graph_error(problem, op="config", got=repr(declared), hint=hint)
        for check in _CHECKS:
            check(declared, "config")
        self._dims = declared

    def check_dims_by(self, check: Callable[[object, str], None]) -> None:
        """Check `dims` from now on by a function that knows all policies.

        Raises GraphError where the environment has set something else.
        """
        _CHECKS.append(check)
        try:
            check(self._dims, "config")
        except GraphError as error:
            expected = _EXPECTED["dims"]
            text, message = self._dims, error.args[0]
            raise _environment_error("GRAPHC_DIMS", text, message, expected) from None

    @property
    def casting(self) -> Casting:
        """The rule for arguments of other dtypes: "exact", "safe" or "same_kind"."""
        return self._casting

    @casting.setter
    def casting(self, rule: object) -> None:
        self._casting = check_casting(rule, "config")

    @property
    def float(self) -> DType:
        """The default floating-point dtype."""
        thread_default = _OF_THREAD.float
        return self._float if thread_default is None else thread_default

    @float.setter
    def float(self, name: object) -> None:
        try:
            dtype = dtype_of(name)
        except GraphError:
            raise _float_error(repr(name)) from None
        if not is_float(dtype):
            raise _float_error(dtype.name)
        self._float = dtype

    @property
    def max_bytes(self) -> int:
        """The most bytes that an array made from a few numbers may take."""
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


def _float_error(shown: str) -> GraphError:
    problem = f"the default float cannot be {shown}"
    return graph_error(problem, op="config", expected=_EXPECTED["float"])


def _setting_text(setting: object) -> str:
    return repr(setting.name if isinstance(setting, np.dtype) else setting)


_CHECKS: list[Callable[[object, str], None]] = []


def _environment_error(
    variable: str, text: str, message: str, expected: str = ""
) -> GraphError:
    """The error for a variable of the environment, which no line of the user caused."""
    expectations = [x for x in message.splitlines() if x.startswith("  expected: ")]
    return graph_error(
        f"the environment variable {variable} cannot be {text!r}",
        op="config",
        expected=expected or "".join(expectations).removeprefix("  expected: "),
        where=NOWHERE,
    )


# Convert the text of a variable of the environment to the value of its setting.
_READERS: dict[str, Callable[[str], Any]] = {
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
