"""The function that a command is about: `FILE:NAME` or `MODULE:NAME`."""

import contextlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Generator
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from graphc.command.errors import CommandError, TargetError, without_place
from graphc.errors import OWN_FILES, GraphError

MOST_LINES = 5
_NOT_THEIRS = OWN_FILES, "<frozen", "<graphc "


def target_of(text: str) -> object:
    """The object that `FILE.py:NAME` or `MODULE:NAME` names; NAME may have dots.

    Raises CommandError if there is no such file, module or name, and TargetError, with
    the traceback of the user's lines, if importing the file fails.
    """
    place, separator, path = text.rpartition(":")
    if not separator or not place or not path:
        raise CommandError(f"{text!r} does not name a function: write FILE.py:NAME")
    module = _module_at(place)
    value: Any = module
    for name in path.split("."):
        if not hasattr(value, name):
            raise CommandError(f"{place} has no {path!r}{_other_names(value, name)}")
        value = getattr(value, name)
    return value


def _other_names(value: object, name: str) -> str:
    names = [n for n, v in vars(value).items() if callable(v) and not n.startswith("_")]
    close = get_close_matches(name, names, 3) or sorted(names)[:5]
    return f"; it has {', '.join(close)}" if close else ""


def _module_at(place: str) -> ModuleType:
    path = Path(place)
    if path.suffix != ".py" and not path.exists():
        return _import_module(place)
    if not path.is_file():
        raise CommandError(f"there is no file {place}")
    name = f"graphc_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{place} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    with user_code(f"{place} cannot be imported"):
        spec.loader.exec_module(module)
    return module


def _import_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        with user_code(f"{name} cannot be imported"):
            return importlib.import_module(name)
    except TargetError as error:
        if isinstance(error.__cause__, ModuleNotFoundError) and name.startswith(
            error.__cause__.name or " "
        ):
            raise CommandError(f"there is no file or module {name}") from None
        raise


@contextlib.contextmanager
def user_code(problem: str) -> Generator[None]:
    """Run the user's code, with its output sent to stderr.

    Raises TargetError for an error of that code, with its last lines.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except CommandError:
        raise
    except (Exception, SystemExit) as error:
        raise TargetError(f"{problem}:\n{_error_text(error)}") from error


def _error_text(error: BaseException) -> str:
    """Describe an error with the last lines of the user's code that led to it."""
    lines = traceback.extract_tb(error.__traceback__)
    theirs = [one for one in lines if not one.filename.startswith(_NOT_THEIRS)]
    shown = traceback.format_list(theirs[-MOST_LINES:])
    if isinstance(error, GraphError) and not theirs:
        return without_place(error)
    last = traceback.format_exception_only(_without_note(error))
    return "".join([*shown, *last]).rstrip()


def _without_note(error: BaseException) -> BaseException:
    """The error without JAX's note about hidden frames, which are left out anyway."""
    error.__dict__.pop("__notes__", None)
    return error
