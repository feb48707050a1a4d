"""Files that are written as a whole: a reader gets the old content or the new.

The content goes to a file beside the target, to the disk, and then into its place. A
process that is killed leaves that file behind; whoever writes to the folder next
removes it. Such a file is recognised by its lock, which the system releases with the
process.
"""

import errno
import os
import stat
from contextlib import suppress
from secrets import token_hex
from types import ModuleType

try:
    import fcntl as _locks
except ImportError:  # Windows keeps a file that is open: it needs no lock
    _locks: ModuleType | None = None  # type: ignore[no-redef]

StrPath = str | os.PathLike[str]
_START, _END = ".graphc-", ".new"  # of the names of files that are being written
_WITHOUT_SYNC = errno.EINVAL, errno.ENOTSUP, errno.EBADF  # folders of some systems


def write_whole(path: StrPath, content: bytes, private: bool = False) -> None:
    """Write a file as a whole, or leave what is there as it is.

    An existing file keeps its mode. If the path is a link, the file that it leads to is
    replaced. A pipe or a device is written to directly. A `private` file is for its
    user alone, whatever was there before. Raises OSError, with the path.
    """
    target = os.fsdecode(path)
    target = os.path.abspath(target) if private else os.path.realpath(target)
    there = None if private else _status(target)
    try:
        if there is None or stat.S_ISREG(there.st_mode):
            _replace(target, content, 0o600 if private else 0o666, there)
        else:
            with open(target, "wb") as file:
                file.write(content)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, target) from None


def _replace(
    target: str, content: bytes, mode: int, there: os.stat_result | None
) -> None:
    folder = os.path.dirname(target)
    _remove_left_behind(folder)
    descriptor, name = _create_locked(folder, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if there is not None:
                os.chmod(name, stat.S_IMODE(there.st_mode))
            os.fsync(descriptor)
            if _locks is not None:  # within the lock, so that nobody removes it
                os.replace(name, target)
        if _locks is None:
            os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    _sync(folder)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _create_locked(folder: str, mode: int) -> tuple[int, str]:
    """Create a file in a folder, locked; return its descriptor and its name."""
    while True:
        name = os.path.join(folder, f"{_START}{token_hex(8)}{_END}")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(name, flags, mode)
        if _lock_new(descriptor, name):
            return descriptor, name
        os.close(descriptor)


def _lock_new(descriptor: int, name: str) -> bool:
    """Lock a new file, and return whether it is still there.

    Before it was locked, another process may have removed it.
    """
    if not lock(descriptor):
        return False
    there = _status(name)
    return there is not None and os.path.samestat(there, os.fstat(descriptor))


def lock(descriptor: int) -> bool:
    """Lock a file, and return whether no other process has; True without locks."""
    if _locks is None:
        return True
    try:
        _locks.flock(descriptor, _locks.LOCK_EX | _locks.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # of a file system without locks
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
    return True


def _remove_left_behind(folder: str) -> None:
    """Remove files that killed processes have left unfinished."""
    names: list[str] = []
    with suppress(PermissionError):
        names = os.listdir(folder)
    for name in names:
        if name.startswith(_START) and name.endswith(_END):
            with suppress(OSError):
                _remove_unless_locked(os.path.join(folder, name))


def _remove_unless_locked(name: str) -> None:
    if _locks is None:
        os.unlink(name)  # an error where it is open
        return
    descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        _locks.flock(descriptor, _locks.LOCK_EX | _locks.LOCK_NB)
        os.unlink(name)
    finally:
        os.close(descriptor)


def _sync(folder: str) -> None:
    """Make sure that the names of a folder's files are on the disk, too."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _WITHOUT_SYNC:
            raise
    finally:
        os.close(descriptor)
