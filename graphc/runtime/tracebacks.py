"""Tracebacks without graphc's own frames, as JAX leaves out its own.

JAX's setting `jax_traceback_filtering` (the variable JAX_TRACEBACK_FILTERING) decides
here too: with "off", all frames are there.
"""

import builtins
import os
import sys
from collections.abc import Callable
from functools import wraps
from traceback import walk_tb
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from graphc.errors import GraphError, is_library, is_own

Given = ParamSpec("Given")
Result = TypeVar("Result")
SHOWN, MARKED = "off", "tracebackhide"


def hiding(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """`function`, whose errors have tracebacks of the user's frames."""

    @wraps(function)
    def shown(*args: Given.args, **named: Given.kwargs) -> Result:
        try:
            return function(*args, **named)
        except Exception as error:
            hide(error)
            raise

    wrapper: Any = shown  # errors name what the user has called
    wrapper.__code__ = wrapper.__code__.replace(co_name=function.__name__)
    return shown


def hide(error: Exception) -> None:
    """Take our frames out of a traceback, for a `raise` that follows.

    A mistake of ours keeps them: an error that code of ours has raised, or has made a
    library raise, and that is not meant for users.
    """
    mode = _mode()
    if mode == SHOWN or not _is_for_users(error):
        return
    if mode == MARKED:
        for frame, _ in walk_tb(error.__traceback__):
            if is_own(frame.f_code.co_filename):
                frame.f_locals["__tracebackhide__"] = True
        return
    user_frames = None
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        if not is_own(frame.f_code.co_filename):
            user_frames = TracebackType(user_frames, frame, frame.f_lasti, line)
    error.__traceback__ = user_frames


def _is_for_users(error: Exception) -> bool:
    """Whether an error is one of graphc, or was raised below code of the user."""
    if isinstance(error, GraphError):
        return True
    files = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    within = [name for name in files if is_own(name) or not is_library(name)]
    return bool(within) and not is_own(within[-1])


def _mode() -> str:
    """The setting of JAX; "auto" marks frames in notebooks, which leave these out."""
    jax = sys.modules.get("jax")
    default = os.environ.get("JAX_TRACEBACK_FILTERING", "auto")
    setting = getattr(getattr(jax, "config", None), "jax_traceback_filtering", default)
    if setting not in (None, "auto"):
        return str(setting)
    return MARKED if hasattr(builtins, "get_ipython") else "quiet_remove_frames"
