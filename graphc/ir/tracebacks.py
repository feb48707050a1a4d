"""Tracebacks without graphc's own frames, as JAX leaves out its own.

JAX's setting `jax_traceback_filtering` (the variable JAX_TRACEBACK_FILTERING) applies
here too: with "off", all frames are shown.
"""

import builtins
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature, isfunction, signature
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

from graphc.errors import GraphError, is_library, is_own
from graphc.ir.namespace import misspelled

Given = ParamSpec("Given")
Result = TypeVar("Result")
_CLASS = TypeVar("_CLASS", bound=type)
_OF_PYTHON = "__init__", "__getattr__", "__hash__", "__repr__", "__dir__"
SHOWN, MARKED = "off", "tracebackhide"
# Modules that lead from a call to the user's function, and read its arguments: errors
# that Python or JAX raises below these modules alone are about the call.
LEADING = {
    "graphc.importers.functions",
    "graphc.importers.jax.call.ahead",
    "graphc.importers.jax.call.exact",
    "graphc.importers.jax.call.exact_export",
    "graphc.importers.jax.call.export",
    "graphc.importers.jax.call.sized_function",
    "graphc.importers.jax.call.traced_family",
    "graphc.importers.jax.decorator",
    "graphc.importers.jax.graphs",
    "graphc.importers.jax.jit_function",
    "graphc.importers.jax.jit_options",
    "graphc.importers.jax.optimization",
    "graphc.importers.jax.trace.arguments",
    "graphc.importers.jax.trace.subject",
    "graphc.importers.jax.trace.tracing",
    "graphc.importers.numpy.arguments",
    "graphc.importers.numpy.family",
    "graphc.importers.numpy.function",
    "graphc.importers.numpy.tracing",
    "graphc.ir.tracebacks",
    "graphc.transform.derivatives.vectorize",
}
OF_CALLS = TypeError, ValueError
_BY_NAME = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
_UNEXPECTED = re.compile(r"got an unexpected keyword argument '(\w+)'$")
_CLASS_OF_METHOD = re.compile(r"^\w+\.(?=[a-z]\w*\(\))|\.__init__(?=\(\))")
_TOO_MANY = re.compile(r"takes (1|from 1 to \d+) positional arguments? but")
_OF_OTHERS = {  # keywords of other libraries, for functions without them
    "mode": '; give the options by keyword, as backend="numpy"',
    "updates": "; give the new values among the outputs",
    "givens": "; build the graph with the new values in it",
    "allow_input_downcast": '; write casting="same_kind"',
    "out": "; values are never written to: take the result",
}
_SYNONYMS = {
    "dim": ("axis", "axes", "shape"),
    "dims": ("axis", "axes", "shape"),
    "axes": ("axis",),
    "axis": ("axes",),
    "keepdim": ("keepdims",),
    "keep_dims": ("keepdims",),
    "reverse": ("descending",),
    "size": ("shape",),
    "seed": ("key",),
    "rng": ("key",),
    "init": ("initial",),
}


def hide_own_frames(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Wrap `function` so that tracebacks of its errors show only the user's frames."""

    @wraps(function)
    def shown(*args: Given.args, **named: Given.kwargs) -> Result:
        try:
            return function(*args, **named)
        except Exception as error:
            if isinstance(error, TypeError) and _is_about_arguments(error):
                meant = keyword_hint(str(error), signature(function))
                error.args = (f"{_CLASS_OF_METHOD.sub('', str(error))}{meant}",)
            drop_own_frames(error)
            raise

    wrapper: Any = shown  # errors name the function that the user called
    wrapper.__code__ = wrapper.__code__.replace(co_name=function.__name__)
    return shown


def hide_frames_of_methods(kind: _CLASS) -> _CLASS:
    """Decorator: apply `hide_own_frames` to public methods and operators of a class."""
    for name, member in list(vars(kind).items()):
        operator = name.startswith("__") and name not in _OF_PYTHON
        if isfunction(member) and (operator or not name.startswith("_")):
            setattr(kind, name, hide_own_frames(member))
    return kind


def with_errors_at_caller(data: _CLASS) -> _CLASS:
    """Decorator: a data class whose errors point to the line that makes an instance.

    `dataclasses` writes its `__init__`, which would count as a file of its own.
    """
    init: Any = data.__init__  # type: ignore[misc]
    init.__code__ = init.__code__.replace(co_filename=__file__)
    setattr(data, "__init__", hide_own_frames(init))  # noqa: B010  (mypy refuses the other form)
    return data


def _is_about_arguments(error: TypeError) -> bool:
    """Whether Python has raised the error because arguments fit no parameters."""
    trace = error.__traceback__
    return trace is not None and trace.tb_next is None


def keyword_hint(text: str, called: Signature) -> str:
    """The end of a message: the parameter that was meant, or all that there are."""
    match, parameters = _UNEXPECTED.search(text), called.parameters.values()
    if match is None:
        by_name = [f"{p.name}=" for p in parameters if p.kind is Parameter.KEYWORD_ONLY]
        if len(by_name) < len(parameters) - 1 or not _TOO_MANY.search(text):
            return ""
        takes = f"takes {', '.join(by_name)} by name" if by_name else "has no options"
        return f"; it {takes}"
    name = match.group(1)
    of_function = "backend" in called.parameters
    if name == "out" or (name in _OF_OTHERS and of_function):
        return _OF_OTHERS[name]
    named = [p.name for p in parameters if p.kind in _BY_NAME and p.name != "self"]
    for synonym in _SYNONYMS.get(name, ()):
        if synonym in named:
            return f"; write {synonym}="
    if named[:1] == ["sizes"] or named[:2] == ["path", "sizes"]:
        known = f"; sizes go in a dict, as {{{name!r}: 4}}"
    else:
        known = f"; it takes {', '.join(named)}" if named else ""
    return misspelled(name, named) or known


def drop_own_frames(error: Exception) -> None:
    """Take graphc's frames out of a traceback, for a `raise` that follows.

    An error that is not meant for users, raised by our code or by a library below it,
    is a mistake of ours: it keeps the frames below the user's innermost line.
    """
    mode = _filtering_mode()
    frames = list(walk_tb(error.__traceback__))
    is_for_users = _is_for_users(error, frames)
    last = len(frames) if is_for_users else _innermost_user_frame(frames)
    if mode == SHOWN or not last:
        return
    if mode == MARKED:
        for frame, _ in frames[:last]:
            if is_own(frame.f_code.co_filename):
                frame.f_locals["__tracebackhide__"] = True
        return
    shown_frames = None
    for i, (frame, line) in reversed(list(enumerate(frames))):
        if i >= last or not is_own(frame.f_code.co_filename):
            shown_frames = TracebackType(shown_frames, frame, frame.f_lasti, line)
    error.__traceback__ = shown_frames


def _innermost_user_frame(frames: Sequence[tuple[FrameType, int]]) -> int:
    """The position of the user's innermost frame, or 0 if there is none below ours."""
    files = [frame.f_code.co_filename for frame, _ in frames]
    return max((i for i, name in enumerate(files) if not is_library(name)), default=0)


def _is_for_users(error: Exception, frames: Sequence[tuple[FrameType, int]]) -> bool:
    """Whether an error is one of graphc's, or was raised below code of the user.

    Errors about a name that a value lacks count as well, and so do errors about
    arguments that fit neither the user's function nor JAX.
    """
    if isinstance(error, GraphError):
        return True
    own_frames = [frame for frame, _ in frames if is_own(frame.f_code.co_filename)]
    modules = {_module_name(frame) for frame in own_frames}
    if isinstance(error, OF_CALLS) and modules <= LEADING:
        return True
    innermost = _innermost_user_frame(frames)
    if isinstance(error, AttributeError) and innermost:
        codes = [frame.f_code for frame, _ in frames[innermost:]]
        own_codes = [code for code in codes if is_own(code.co_filename)]
        return all(code.co_name.startswith("__getattr") for code in own_codes)
    files = [frame.f_code.co_filename for frame, _ in frames]
    within = [name for name in files if is_own(name) or not is_library(name)]
    return bool(within) and not is_own(within[-1])


def _module_name(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _filtering_mode() -> str:
    """The setting of JAX; in notebooks, "auto" marks frames so that they are hidden."""
    jax = sys.modules.get("jax")
    default = os.environ.get("JAX_TRACEBACK_FILTERING", "auto")
    setting = getattr(getattr(jax, "config", None), "jax_traceback_filtering", default)
    if setting not in (None, "auto"):
        return str(setting)
    return MARKED if hasattr(builtins, "get_ipython") else "quiet_remove_frames"
