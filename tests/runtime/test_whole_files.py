"""Files are written as a whole, whatever happens, and leave nothing behind."""

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.runtime.cache import whole_files
from graphc.runtime.cache.program_cache import EXECUTABLES, PROGRAMS
from graphc.runtime.cache.whole_files import write_whole

X = gt.tensor("x", "float32", ("n",))
KILLS = 5 * int(os.environ.get("GRAPHC_EXAMPLES", 2))
OLD, NEW = b"old" * 50_000, b"new!" * 70_000
CALLS = "open", "fsync", "replace", "chmod", "close"  # functions of os at which to kill
WRITER = f"""
    import importlib.util, itertools, os, signal, sys
    spec = importlib.util.spec_from_file_location("whole", {whole_files.__file__!r})
    whole = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(whole)
    path, last = sys.argv[1], int(sys.argv[2])
    calls = itertools.count()

    def killed(call):
        def wrapped(*args, **named):
            if next(calls) == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **named)
        return wrapped

    for name in {CALLS!r}:
        setattr(os, name, killed(getattr(os, name)))
    print("started", flush=True)
    while True:
        whole.write_whole(path, {b"new!"!r} * 70_000)
        if last >= 0:
            break
        whole.write_whole(path, {b"old"!r} * 50_000)
"""


def writer(path, last):
    command = [sys.executable, "-S", "-c", textwrap.dedent(WRITER), path, str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_process_that_is_killed_leaves_the_old_file_or_the_new(tmp_path):
    """It is killed at each system call in turn, and then at random times."""
    path = tmp_path / "model"
    found = []
    for last in range(99):
        path.write_bytes(OLD)
        done = writer(path, last)
        done.communicate()
        found.append(path.read_bytes())
        assert found[-1] in (OLD, NEW) and len(names(tmp_path)) <= 2
        if done.returncode == 0:
            break
    assert {OLD, NEW} == set(found) and len(found) > 4
    for _ in range(KILLS):
        process = writer(path, -1)
        process.stdout.readline()
        time.sleep(random.random() / 20)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert path.read_bytes() in (OLD, NEW) and len(names(tmp_path)) <= 2
    write_whole(path, b"all")
    assert names(tmp_path) == ["model"]


def full(descriptor):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def doors(folder):
    """The functions that write files, and the files they write."""
    f = graphc.function([X], X + 1, dims="specialize")
    return {
        "export": (lambda: f.export(folder / "model", {"n": 3}), folder / "model"),
        "save": (lambda: f.save(folder / "model.py"), folder / "model.py"),
    }


@pytest.mark.parametrize("door", ["export", "save"])
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch, door):
    write, path = doors(tmp_path)[door]
    write()
    before = path.read_bytes()
    monkeypatch.setattr(whole_files.os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        write()
    assert path.read_bytes() == before and names(tmp_path) == [path.name]
    monkeypatch.undo()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match=f"File too large: '{path}'"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before and names(tmp_path) == [path.name]
    write()


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_cache_on_a_full_disk_is_told_and_has_no_litter(
    tmp_path, monkeypatch, backend
):
    monkeypatch.setattr(whole_files.os, "fsync", full)
    monkeypatch.setattr(graphc.config, "cache_dir", tmp_path / "cache")
    with pytest.warns(graphc.CacheWarning, match="No space left on device"):
        f = graphc.function([X], X * 3, backend=backend)
    if backend == "jax":  # JAX writes its executables through the same door
        with pytest.warns(UserWarning, match="No space left on device"):
            assert f(np.ones(2, "float32")).tolist() == [3, 3]
        assert names(tmp_path / "cache" / EXECUTABLES) == []
    assert f(np.ones(2, "float32")).tolist() == [3, 3]
    assert names(tmp_path / "cache" / PROGRAMS) == []


def test_the_export_is_refused_before_the_file_is_touched(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        write_whole(tmp_path / "absent" / "model", b"")
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"")
    assert names(tmp_path) == []


def test_modes_links_and_devices_are_what_they_were(tmp_path):
    path, link = tmp_path / "model", tmp_path / "link"
    before = os.umask(0o027)
    try:
        write_whole(path, b"1")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o664)
    link.symlink_to("model")
    write_whole(link, b"2")
    assert link.is_symlink() and path.read_bytes() == b"2"
    assert path.stat().st_mode & 0o777 == 0o664
    write_whole(os.devnull, b"3")
    assert not os.path.isfile(os.devnull)
    write_whole(link, b"4", private=True)
    assert not link.is_symlink() and path.read_bytes() == b"2"
    assert link.stat().st_mode & 0o777 == 0o600


def test_threads_that_write_one_file_leave_one_of_theirs(tmp_path):
    contents = [bytes([i]) * 10_000 for i in range(8)]
    write = lambda content: [write_whole(tmp_path / "model", content) for _ in "abcde"]
    threads = [threading.Thread(target=write, args=[c]) for c in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "model").read_bytes() in contents
    assert names(tmp_path) == ["model"]
