"""Stances towards compilations: under "no_compile", a call that needs one raises.

An emitted program announces a segment when it is traced for new sizes, which is before
anything is lowered or compiled for them. JAX compiles again without a trace for
arguments that are placed elsewhere, so the placements are remembered.
"""

import os
import re
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from graphc.errors import (
    NOWHERE,
    NoCompileError,
    describe,
    graph_error,
    in_number,
    shortened,
    user_place,
)

Stance = Literal["default", "no_compile"]
STANCES: tuple[str, ...] = get_args(Stance)
_EXPECTED = " or ".join(map(repr, STANCES))
VARIABLE = "GRAPHC_STANCE"
SEGMENT = re.compile(r"jit\((?:.*\.)?segment_(\d+)\)")  # as JAX names it


@dataclass(eq=False)
class CompilationLimit:
    """The number of compilations that some functions, or all, may make.

    `left` is what remains of it, None for any number. `granted` compilations have
    begun: they have been traced, and are not lowered yet.
    """

    left: int | None
    functions: tuple[Any, ...] = ()
    error: type[NoCompileError] = NoCompileError
    count: int = 0
    granted: int = 0

    def covers(self, owner: object) -> bool:
        """Whether the limit holds for what `owner`, a program or function, compiles."""
        return not self.functions or any(f.compiles(owner) for f in self.functions)

    def grant(self) -> None:
        """Count one compilation, which begins now."""
        self.count += 1
        self.granted += 1
        if self.left is not None:
            self.left -= 1


class Refused(Exception):
    """Raised in place of a compilation, by an emitted program or by JAX.

    The function that was called tells the user what the call needs.
    """

    def __init__(
        self,
        limit: CompilationLimit,
        segment: int | None = None,
        sizes: Mapping[str, int] = {},
    ) -> None:
        super().__init__("nothing may be compiled here")
        self.limit = limit
        self.segment = segment
        self.sizes: dict[str, int] = dict(sizes)

    @property
    def problem(self) -> str:
        """The rule that the compilation would break."""
        if self.limit.count:
            most = in_number(self.limit.count, "compilation")
            return f"no more than {most} may be made"
        return "nothing may be compiled here, but this call needs a compilation"


def _limits_of_process() -> tuple[CompilationLimit, ...]:
    """Return the limits that the environment sets for this process."""
    stance = os.environ.get(VARIABLE) or "default"
    if stance not in STANCES:
        problem = f"the environment variable {VARIABLE} cannot be {stance!r}"
        raise graph_error(problem, op="config", expected=_EXPECTED, where=NOWHERE)
    return () if stance == "default" else (CompilationLimit(0),)


_OF_PROCESS = _limits_of_process()
_LIMITS: ContextVar[tuple[CompilationLimit, ...]] = ContextVar(
    "limits", default=_OF_PROCESS
)
_CALLED: ContextVar[tuple[object, str] | None] = ContextVar("called", default=None)


@contextmanager
def apply_limit(limit: CompilationLimit) -> Generator[CompilationLimit]:
    """Within: the limit holds in this thread, in addition to those outside of it."""
    token = _LIMITS.set((*_LIMITS.get(), limit))
    try:
        yield limit
    finally:
        _LIMITS.reset(token)


def stance(
    stance: Stance, /, *functions: object
) -> AbstractContextManager[CompilationLimit]:
    """Say, for a block of this thread, how calls behave that need a compilation.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> x = gt.vector("x", shape=("n",))
    >>> f = graphc.function([x], x * 2, dims="specialize")
    >>> _ = f.compile({"n": 3})
    >>> with graphc.stance("no_compile"):
    ...     print(f(np.ones(3, "float32")))
    [2. 2. 2.]

    "no_compile": the call raises `NoCompileError` before anything is compiled, and
    changes nothing. The message names the size that is new, the line that asks for it,
    and the call of `compile` by which it would have been ready. "default": it is
    compiled. Where `functions` are given, as `graphc.function` and `graphc.jit` return
    them, the stance is for these alone. The innermost stance counts. `f.compile(...)`
    compiles in either. The environment says the stance of a process and all its
    threads: `GRAPHC_STANCE=no_compile`.
    """
    if stance not in STANCES:
        problem = f"there is no such stance: {shortened(repr(stance))}"
        raise graph_error(problem, op="stance", expected=_EXPECTED)
    require_functions(functions, "stance")
    return apply_limit(CompilationLimit(None if stance == "default" else 0, functions))


def require_functions(functions: tuple[object, ...], op: str) -> None:
    """Raise GraphError for a function that cannot tell what it compiles."""
    for function in functions:
        if not hasattr(type(function), "compiles"):
            raise graph_error(
                "this is not a function that graphc compiles",
                op=op,
                got=shortened(repr(function)),
                expected="what graphc.function or graphc.jit returns",
            )


@contextmanager
def lift_limits() -> Generator[None]:
    """Within: the user asks for compilations, which no limit counts."""
    token = _LIMITS.set(())
    try:
        yield
    finally:
        _LIMITS.reset(token)


@contextmanager
def attribute_compilations(owner: object, name: str) -> Generator[None]:
    """Within: what JAX compiles under this name is compiled for `owner`."""
    token = _CALLED.set((owner, f"jit({name})"))
    try:
        yield
    finally:
        _CALLED.reset(token)


def forbidding_limit(owner: object) -> CompilationLimit | None:
    """Return the limit that forbids `owner` to compile now; None if it may."""
    limits = _LIMITS.get()
    lifts = False
    for limit in reversed(limits):
        if limit.covers(owner):
            if limit.left == 0 and not (lifts and not limit.count):
                return limit
            lifts = lifts or limit.left is None
    return None


def note_compilation(
    owner: object, segment: int | None = None, sizes: Mapping[str, int] = {}
) -> None:
    """Note that a compilation is about to begin. Raises Refused where it may not."""
    limits = _LIMITS.get()
    if not limits:
        return
    limit = forbidding_limit(owner)
    if limit is not None:
        raise Refused(limit, segment, sizes)
    for limit in limits:
        if limit.covers(owner):
            limit.grant()


class Compiling(Protocol):
    """An owner of compilations, which can list them."""

    def completed(self) -> list[str]:
        """Return the segments that are compiled, each with its sizes, in order."""
        ...


def with_stance(agree: Callable[..., None], owner: Compiling) -> Callable[..., None]:
    """Make the function by which processes agree on a call compare stances too.

    Processes that compile would wait forever for the devices of one that may not. So
    would a process that has compiled for a call, where the others have not and may not.
    """

    def agreeing(*call: object) -> None:
        *before, values = call
        assert isinstance(values, dict)
        may_compile = forbidding_limit(owner) is None
        compared: dict[str, object] = {"permission to compile": may_compile}
        if not may_compile:
            compared["compiled"] = owner.completed()
        agree(*before, values | compared)

    return agreeing


def count_lowered(name: str) -> None:
    """Count a function of this name, which JAX has lowered and is about to compile.

    Nothing is raised here, within JAX, since its cache would keep that.
    """
    limits = _LIMITS.get()
    if not limits:
        return
    owner, called_name = _CALLED.get() or (None, "")
    if name != called_name and SEGMENT.fullmatch(name) is None:
        return
    granted = [limit for limit in limits if limit.granted]
    for limit in granted:
        limit.granted -= 1
    for limit in limits if not granted else ():
        if limit.left and limit.covers(owner):
            limit.left, limit.count = limit.left - 1, limit.count + 1


class Placements:
    """The placements of arguments that calls were compiled for, by their sizes.

    For a new placement JAX compiles again, without a trace that could be stopped.
    """

    def __init__(self) -> None:
        self._known: set[Hashable] = set()

    def note(self, sizes: Callable[[], Hashable], args: Iterable[object]) -> None:
        """Note that calls of these sizes are compiled for arguments placed so."""
        placed = _placements(args)
        if placed:
            self._known.add((sizes(), placed))

    def require(
        self, owner: object, sizes: Callable[[], Hashable], args: Iterable[object]
    ) -> None:
        """Raise Refused where `owner` may not compile for a placement that is new."""
        if not _LIMITS.get():
            return
        placed = _placements(args)
        limit = forbidding_limit(owner) if placed else None
        if limit is not None and (sizes(), placed) not in self._known:
            raise Refused(limit)


def _placements(args: Iterable[Any]) -> tuple[Hashable, ...]:
    """Return the positions and shardings of arguments that are committed to devices."""
    return tuple((i, a.sharding) for i, a in enumerate(args) if _is_committed(a))


def _is_committed(argument: object) -> bool:
    """Whether an argument is committed to devices; a traced one is nowhere."""
    traced = type(argument).__name__.endswith("Tracer")
    return not traced and getattr(argument, "committed", False) is True


@dataclass(frozen=True)
class Remedy:
    """The sizes to compile for, including those `read` from the device.

    `code` is the call that compiles for them, given a function `f`; "" if there is
    none.
    """

    sizes: dict[str, int]
    read: dict[str, int]
    code: str


def refusal(
    refused: Refused, reason: str, arguments: str, remedy: Remedy
) -> NoCompileError:
    """Return the error for users: the reason, and the code that would have avoided it.

    Where there is no such code, the hint is to call the function.
    """
    called = "call it once with such arguments, where it may compile"
    hint = f"{remedy.code} compiles for it ahead of calls" if remedy.code else called
    problem = f"{refused.problem}\n  because: {reason}"
    text = describe(problem, arguments=arguments, hint=hint, where=user_place())
    return refused.limit.error(text, remedy.sizes, remedy.read, remedy.code)
