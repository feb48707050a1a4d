"""The room of the cache: files unused for longest are removed once they take too much.

Files of programs are touched when they are read. JAX reads the executables: the system
says when, as exactly as it records reads at all. Several processes may write and remove
files at once: only one of them clears at a time, a file that is gone was removed by
another process, and files that are being written are left alone. Where there are no
locks, processes may clear at once, which does no harm.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from graphc.ir.config import config
from graphc.runtime.cache.whole_files import lock

PAUSE = 10.0  # seconds, at least, from one look at the directory to the next
SHARE_KEPT = 0.9  # share of the room that is left filled when files are removed
_LOCK = ".graphc-clearing"
_last: dict[str, float] = {}


@dataclass(frozen=True)
class _CachedFile:
    """A file of the cache: its size in bytes, and when it was last used."""

    path: str
    bytes: int
    used: float


def touch(path: Path) -> None:
    """Record that a file is used now."""
    with suppress(OSError):
        os.utime(path)


def clear(directory: str, folders: tuple[str, ...]) -> None:
    """Remove files of these folders, if they take more than `config.cache_bytes`.

    Does nothing if this process has looked less than `PAUSE` seconds ago.
    """
    now = time.monotonic()
    if now - _last.get(directory, -PAUSE) < PAUSE:
        return
    _last[directory] = now
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    with suppress(OSError):
        descriptor = os.open(os.path.join(directory, _LOCK), flags, 0o600)
        try:
            if lock(descriptor):
                _remove_oldest([Path(directory, folder) for folder in folders])
        finally:
            os.close(descriptor)


def _remove_oldest(folders: list[Path]) -> None:
    files = [file for folder in folders for file in _files(folder)]
    total = sum(file.bytes for file in files)
    if total <= config.cache_bytes:
        return
    for file in sorted(files, key=lambda file: file.used):
        if total <= SHARE_KEPT * config.cache_bytes:
            return
        with suppress(OSError):
            os.unlink(file.path)
        total -= file.bytes


def _files(folder: Path) -> Iterator[_CachedFile]:
    """Yield the files of a folder, except links and files that are being written."""
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
                yield _CachedFile(entry.path, status.st_size, used)
