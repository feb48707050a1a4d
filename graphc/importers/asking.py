"""Who asks a question: the user's code, or the code of a library that it calls."""

import os
import sys
from functools import cache
from types import FrameType

from graphc.errors import is_user_file

_LIBRARIES = {"graphc", "jax", "jaxlib", "opt_einsum"}  # not the user's code
_TRANSPARENT_MODULES = "jax._src.tree", "jax._src.tree_util"  # they call any code
_PYTHON_PREFIXES = os.path.dirname(os.__file__) + os.sep, "<frozen "


def is_asked_by_user(frame: FrameType | None) -> bool:
    """Whether a question comes from the user's code rather than from JAX or graphc.

    Libraries other than these count as the user's code.
    """
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        answer = _has_user_code(name, frame.f_code.co_filename)
        if answer is not None:
            return answer
        frame = frame.f_back
    return False


def is_asked_in_user_file(frame: FrameType | None) -> bool:
    """Whether a question comes from the user's own code, from no library at all."""
    while frame is not None and _is_python_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and is_user_file(frame.f_code.co_filename)


def _is_python_file(file: str) -> bool:
    return file.startswith(_PYTHON_PREFIXES) and "-packages" not in file


@cache
def _has_user_code(module: str, file: str) -> bool | None:
    """Whether a module has user code; None for Python's own, which any code calls."""
    package = module.partition(".")[0]
    if module in _TRANSPARENT_MODULES:
        return None
    if package in sys.stdlib_module_names and file.startswith(_PYTHON_PREFIXES):
        return None
    return package not in _LIBRARIES
