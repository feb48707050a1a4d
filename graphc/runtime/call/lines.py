"""A call plan as straight lines of Python, compiled once for each form of plan.

    def run(a0, a1):
        if nans.value or infs.value or config.jax_disable_jit:
            return otherwise(a0, a1)
        if programs.newest is not program:
            return otherwise(a0, a1)
        b0 = zeros(s0, d0)
        b0[i0] = a0
        start = EVENTS.count
        try:
            [r0] = jitted(b0, a1.copy(), n0)
        except Exception as error:
            program.take_back(a0, a1)
            failure = fail(error, (a0, a1))
            raise failure from failure.__cause__
        except BaseException:
            program.take_back(a0, a1)
            interrupt()
            raise
        if pending or EVENTS.count != start:
            settle((a0, a1), start)
        return place(asarray(r0)[t0], r0)
"""

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from math import prod
from types import CodeType
from typing import Any, Protocol

import numpy as np

from graphc.backends.entry import where_xla_takes_it
from graphc.backends.program import Outputs
from graphc.ir.types import DType, NDArray
from graphc.runtime.call.arguments import ArgumentValues
from graphc.runtime.call.device_copies import DeviceCopy
from graphc.runtime.call.dispatch import Run
from graphc.runtime.call.plan import CallPlan, KnownShape
from graphc.runtime.call.segment_call import SegmentCalls
from graphc.runtime.driver.xla import EVENTS
from graphc.transform.tied_sizes import KnownRooms
from graphc_serving.arguments import SMALL, copy

_LARGE = 2**16  # bytes of a buffer from which XLA reads it where it lies
_FORMS = 256  # the forms of plans whose lines are remembered, at most


class InUse(Protocol):
    """The programs of a function."""

    @property
    def newest(self) -> object:
        """The program that runs new calls."""


class Counting(Protocol):
    """A program that counts calls by their sizes."""

    def counting(self, args: ArgumentValues, run: Run) -> Callable[[], Run]:
        """Return a function that gives `run` for calls like this one, and counts it."""
        ...

    def take_back(self, *args: object) -> None:
        """Take back the count of a call on these arguments, which has failed."""

    def forget_runs(self) -> None:
        """Let go of the functions that `counting` gave: nobody calls them any more."""


@dataclass(frozen=True)
class CallSite:
    """The compiled function that calls belong to, and what their plans need of it.

    `calls` are the calls of its jitted function. `place` turns parts of results, if
    there are any, into arrays of JAX. Where a device `launches` what it does, arrays of
    JAX are copied on it, and `owner` is what compiles these copies. `otherwise` runs
    calls while JAX looks for NaN or does not compile, and once `program` is not the
    newest of `programs`. `fail` gives the error of a failed call, and `interrupt` notes
    that the user has ended one. `rooms` are the capacities that calls of the program
    had, if it chooses among them. `settle` records what a call has compiled, as
    `pending` or JAX's events tell.
    """

    jax: Any
    calls: SegmentCalls
    place: Run | None
    launches: bool
    owner: object
    otherwise: Run
    programs: InUse
    program: Counting
    fail: Callable[[Exception, tuple[Any, ...]], Exception]
    interrupt: Callable[[], None]
    rooms: KnownRooms | None
    pending: Sized
    settle: Callable[[tuple[Any, ...], int], None]


@dataclass(frozen=True)
class Ending:
    """The end of calls that come from elsewhere.

    `count` counts each of them, and `finish` turns the list of results into what the
    call returns. They come only while JAX compiles functions.
    """

    count: Callable[[], object]
    finish: Callable[[list[Any]], object]


def plan_runner(
    plan: CallPlan,
    args: ArgumentValues,
    outputs: Outputs,
    site: CallSite,
    ending: Ending | None,
) -> Run:
    """Return a function that runs calls of the signature of `args` by their plan."""
    buffers = zip(args, plan.buffers, strict=True)
    handed = tuple([_argument_text(*pair, site.launches) for pair in buffers])
    results = zip(plan.stored, plan.cuts, strict=True)
    returned = tuple([_result_text(*pair, site.launches) for pair in results])
    call = site.calls.call([*_stand_ins(args, plan), *plan.integers])
    jax, config = site.jax, site.jax.config
    scope = {"nans": jax.debug_nans, "infs": jax.debug_infs, "config": config}
    scope |= _HELPERS | vars(site)
    for i, (a, stored) in enumerate(zip(args, plan.buffers, strict=True)):
        if stored is not None:
            scope |= {f"s{i}": stored, f"d{i}": a.dtype}
            scope[f"i{i}"] = _part(a.shape, stored)
            if site.launches:
                scope[f"p{i}"] = _padding_copy(site, a.shape, stored, a.dtype)
    for i, (stored, true) in enumerate(zip(plan.stored, plan.cuts, strict=True)):
        if true is not None:
            scope[f"t{i}"] = _part(true, stored)
            if site.launches:
                scope[f"c{i}"] = _cutting_copy(site, stored, true)
    scope |= {f"n{i}": n for i, n in enumerate(call.numbers)} | {"jitted": call.jitted}
    if ending is not None:
        scope |= vars(ending)
    form = call.operands, call.is_single, ending is not None
    exec(_run_code(handed, returned, outputs, *form), scope)
    run: Run = scope["run"]
    return run


def _stand_ins(args: ArgumentValues, plan: CallPlan) -> list[NDArray]:
    """Make arrays, of any content, in the shapes in which arguments are handed over."""
    pairs = zip(args, plan.buffers, strict=True)
    shapes = [np.shape(a) if stored is None else stored for a, stored in pairs]
    return [np.broadcast_to(0.0, shape) for shape in shapes]


_HELPERS: dict[str, Any] = {
    "EVENTS": EVENTS,
    "asarray": np.asarray,
    "copy": copy,
    "where_xla_takes_it": where_xla_takes_it,
    "zeros": np.zeros,
}


def _argument_text(argument: Any, stored: KnownShape | None, launches: bool) -> str:
    """Return the text that hands over an argument, with `{0}` for its number.

    An argument of a weak type goes into a buffer even where its shape fits: buffers
    have no weak types, and JAX would compile again for one.
    """
    is_weak = getattr(argument, "weak_type", False)
    if stored is None or (stored == argument.shape and not is_weak):
        if type(argument) is not np.ndarray:
            return "a{0}"
        return "a{0}.copy()" if argument.nbytes < SMALL else "copy(a{0})"
    if launches and type(argument) is not np.ndarray:
        return "p{0}(a{0})"
    large = argument.dtype.itemsize * prod(stored) >= _LARGE
    return "where_xla_takes_it(zeros(s{0}, d{0}))" if large else "zeros(s{0}, d{0})"


def _result_text(stored: KnownShape, true: KnownShape | None, launches: bool) -> str:
    """Return the text that returns a result, cut to the shape `true`.

    A part of less than half of the result is copied, so as not to keep all of it in
    memory.
    """
    if true is None:
        return "r{0}"
    if launches:
        return "c{0}(r{0})"
    copied = ".copy()" if 2 * prod(true) < prod(stored) else ""
    return "place(asarray(r{0})[t{0}]" + copied + ", r{0})"


def _padding_copy(
    site: CallSite, true: KnownShape, stored: KnownShape, dtype: DType
) -> DeviceCopy:
    """Make the copy of an argument into a buffer of zeros, on an accelerator."""
    part, jnp = _part(true, stored), site.jax.numpy
    widths = [(0, n - m) for n, m in zip(stored, true, strict=True)]

    def by_host(array: object) -> object:
        buffer = np.zeros(stored, dtype)
        buffer[part] = array
        return buffer

    return DeviceCopy(site.jax, by_host, lambda a: jnp.pad(a, widths), site.owner)


def _cutting_copy(site: CallSite, stored: KnownShape, true: KnownShape) -> DeviceCopy:
    """Make the copy that cuts a result to its true shape, on an accelerator."""
    part, place = _part(true, stored), site.place
    assert place is not None

    def by_host(result: object) -> object:
        return place(np.asarray(result)[part], result)

    return DeviceCopy(site.jax, by_host, lambda r: r[part], site.owner)


def _part(shape: KnownShape, stored: KnownShape) -> Any:
    """Return the index of the leading part of a stored array that has this shape."""
    axes = max((i + 1 for i, n in enumerate(shape) if n != stored[i]), default=0)
    parts = tuple(map(slice, shape[:axes]))
    return parts[0] if axes == 1 else parts


@lru_cache(_FORMS)
def _run_code(
    handed: tuple[str, ...],
    returned: tuple[str, ...],
    outputs: Outputs,
    operands: tuple[int | None, ...],
    is_single: bool,
    is_ended: bool,
) -> CodeType:
    """Compile the lines that all plans of one form share."""
    parameters = "".join(f"a{i}, " for i in range(len(handed)))
    results = ", ".join(f"r{i}" for i in range(len(returned)))
    target = "r0" if is_single else f"[{results}]"
    buffers, arguments = _arguments(handed, operands)
    result_texts = [text.format(i) for i, text in enumerate(returned)]
    answer = outputs.text(result_texts)
    if is_ended:
        answer = f"finish([{', '.join(result_texts)}])"
    looks = "nans.value or infs.value"
    lines = [
        f"if {looks}:" if is_ended else f"if {looks} or config.jax_disable_jit:",
        f"    return otherwise({parameters})",
        "if programs.newest is not program:",
        f"    return otherwise({parameters})",
        *["count()"] * is_ended,
        *buffers,
        "start = EVENTS.count",
        "try:",
        f"    {target} = jitted({', '.join(arguments)})",
        "except Exception as error:",
        f"    program.take_back({parameters})",
        f"    failure = fail(error, ({parameters}))",
        "    raise failure from failure.__cause__",
        "except BaseException:",
        f"    program.take_back({parameters})",
        "    interrupt()",
        "    raise",
        "if pending or EVENTS.count != start:",
        f"    settle(({parameters}), start)",
        f"return {answer}",
    ]
    text = f"def run({parameters}):\n" + "\n".join(f"    {line}" for line in lines)
    return compile(text, "<graphc call plan>", "exec")


def _arguments(
    handed: Sequence[str], operands: Sequence[int | None]
) -> tuple[list[str], list[str]]:
    """Return the lines that fill buffers, and the texts of the jitted operands."""
    texts: dict[int, str] = {}
    lines: list[str] = []
    for i in sorted({place for place in operands if place is not None}):
        text = texts[i] = handed[i].format(i)
        if not text.startswith(("zeros", "where", "p")):
            continue
        texts[i] = f"b{i}"
        lines.append(f"b{i} = {text}")
        if "zeros" in text:
            lines.append(f"b{i}[i{i}] = a{i}")
    numbers = count()
    arguments = [
        f"n{next(numbers)}" if place is None else texts[place] for place in operands
    ]
    return lines, arguments
