"""The room of the cache: what was not used for longest leaves, once there is too much.

Files of programs are touched when they are read. Executables are read by JAX: of these
the system says when, as exactly as it records reads at all. Several processes may write
and remove at once: one of them clears at a time, a file that is gone was removed by
another, and files that are being written are left alone.
"""

import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from graphc.ir.config import config

try:
    import fcntl as _locks
except ImportError:  # Windows: processes may clear at once, which does no harm
    _locks: ModuleType | None = None  # type: ignore[no-redef]

PAUSE = 10.0  # seconds, at least, from one look at the directory to the next
LEFT = 0.9  # of the room, when files have been removed
_LOCK = ".graphc-clearing"
_last: dict[str, float] = {}


@dataclass(frozen=True)
class _Kept:
    """A file of the cache: its bytes, and when it was used."""

    path: str
    bytes: int
    used: float


def touch(path: Path) -> None:
    """A file has been used now."""
    with suppress(OSError):
        os.utime(path)


def clear(directory: str, folders: tuple[str, ...]) -> None:
    """Remove files of these folders, if they take more than `config.cache_bytes`.

    It does nothing where this process has looked a short time ago.
    """
    now = time.monotonic()
    if now - _last.get(directory, -PAUSE) < PAUSE:
        return
    _last[directory] = now
    with suppress(OSError), _alone(directory):
        _clear([Path(directory, folder) for folder in folders])


def _clear(folders: list[Path]) -> None:
    files = [file for folder in folders for file in _files(folder)]
    total = sum(file.bytes for file in files)
    if total <= config.cache_bytes:
        return
    for file in sorted(files, key=lambda file: file.used):
        if total <= LEFT * config.cache_bytes:
            return
        with suppress(OSError):
            os.unlink(file.path)
        total -= file.bytes


def _files(folder: Path) -> Iterator[_Kept]:
    """The files of a folder, without those that are being written, and links."""
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        with suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            if entry.is_file(follow_symlinks=False):
                used = max(status.st_atime, status.st_mtime)
                yield _Kept(entry.path, status.st_size, used)


@contextmanager
def _alone(directory: str) -> Generator[None]:
    """Within: no other process clears. Raises BlockingIOError where one does."""
    if _locks is None:
        yield
        return
    path = os.path.join(directory, _LOCK)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        _locks.flock(descriptor, _locks.LOCK_EX | _locks.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
