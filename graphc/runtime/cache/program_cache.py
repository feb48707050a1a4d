"""Programs that are kept in a directory for other processes.

A program is code. A program that is read is run only if it is whole (by a digest over
all of it), is what was asked for (by its key), and is a file of this user that nobody
else can write, in a directory of which the same holds. Any other file is reported once,
not run, and replaced. A digest is no signature: whoever may write as this user can
write programs.
"""

import json
import os
import stat
import warnings
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path

from graphc.errors import user_level
from graphc.runtime.cache import cache_room
from graphc.runtime.cache.prepared_program import ProgramFacts
from graphc.runtime.cache.whole_files import write_whole
from graphc.warning_kinds import CacheWarning

FORMAT = 1
PROGRAMS, EXECUTABLES = "programs", "executables"  # folders in the directory
LARGEST = 2**30  # bytes of a file that is read
_HEAD = "graphc program"
_reported: set[str] = set()


class _Unfit(Exception):
    """Raised when a file exists and cannot be used; the message says why."""


def read(directory: str, key: str) -> ProgramFacts | None:
    """Return the program that is kept for a key, or None if there is none that fits."""
    path = Path(directory, PROGRAMS, f"{key}.json")
    try:
        require_own(os.stat(path.parent), "the directory")
        facts = _facts_in(_bytes_of(path), key)
        cache_room.touch(path)
        return facts
    except FileNotFoundError:
        return None
    except OSError as error:
        _tell(path, f"it cannot be read: {error.strerror}")
    except _Unfit as error:
        _tell(path, str(error))
    return None


def _bytes_of(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        require_own(status, "it")
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise _Unfit(f"it is not a regular file of at most {LARGEST} bytes")
        return file.read(LARGEST)


def require_own(status: os.stat_result, what: str) -> None:
    """Raise _Unfit if a file belongs to another user, or others can write it."""
    if not hasattr(os, "geteuid"):
        return
    if status.st_uid != os.geteuid():
        raise _Unfit(f"{what} belongs to another user, number {status.st_uid}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _Unfit(f"others can write {what}: chmod go-w")


def _facts_in(content: bytes, key: str) -> ProgramFacts:
    head, _, body = content.partition(b"\n")
    title, _, format_and_digest = head.decode("ascii", "replace").rpartition(
        f"{_HEAD} "
    )
    number, _, digest = format_and_digest.partition(" ")
    if title or not number.isdecimal():
        raise _Unfit("it is not a program of graphc")
    if int(number) > FORMAT:
        raise _Unfit(f"a newer graphc wrote it, in format {number}; this is {FORMAT}")
    if sha256(body).hexdigest() != digest:
        raise _Unfit("it is damaged or cut off: its digest does not match")
    try:
        fields = json.loads(body)
        if fields.pop("key") != key:
            raise _Unfit("it is the program of another graph")
        return _checked_facts(ProgramFacts(**fields))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise _Unfit("it is not a program of graphc") from None


def _checked_facts(facts: ProgramFacts) -> ProgramFacts:
    kinds = {"text": str, "alone": bool, "wide": bool, "padded": bool, "segments": int}
    if any(type(getattr(facts, name)) is not kind for name, kind in kinds.items()):
        raise TypeError
    statics, padded_inputs = map(_positions, (facts.statics, facts.padded_inputs))
    return replace(facts, statics=statics, padded_inputs=padded_inputs)


def _positions(listed: object) -> tuple[int, ...]:
    if not isinstance(listed, list) or any(type(i) is not int for i in listed):
        raise TypeError
    return tuple(listed)


def write(directory: str, key: str, facts: ProgramFacts) -> None:
    """Store a program; where that is impossible, warn once and go on."""
    body = json.dumps({"key": key, **asdict(facts)}).encode()
    head = f"{_HEAD} {FORMAT} {sha256(body).hexdigest()}\n".encode()
    path = Path(directory, PROGRAMS, f"{key}.json")
    try:
        make_own_folder(path.parent)
        write_whole(path, head + body, private=True)
    except OSError as error:
        _tell(path.parent, f"it cannot be written: {error.strerror}")
    make_room(directory)


def make_room(directory: str) -> None:
    """Remove the files unused for longest, if the cache takes too much room."""
    cache_room.clear(directory, (PROGRAMS, EXECUTABLES))


def make_own_folder(path: Path) -> None:
    """Make a directory that nobody else can write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)


def _tell(path: Path, reason: str) -> None:
    if str(path) not in _reported:
        _reported.add(str(path))
        problem = f"not used as a cache: {path}\n  {reason}"
        warnings.warn(problem, CacheWarning, stacklevel=user_level())


def is_usable(path: Path) -> bool:
    """Whether a directory, made if need be, is this user's alone; else warn once."""
    try:
        make_own_folder(path)
        require_own(os.stat(path), "it")
    except OSError as error:
        _tell(path, f"it cannot be written: {error.strerror}")
    except _Unfit as error:
        _tell(path, str(error))
    else:
        return True
    return False


