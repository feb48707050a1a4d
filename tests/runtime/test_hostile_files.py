"""Whatever a file says, reading it takes no more memory than it has, and no crash."""

import json
import os
import random
import subprocess
import sys
import textwrap

import pytest
from safetensors.numpy import load, save

import graphc
import graphc_serving
from graphc_serving.manifest import digest
from graphc_serving.reading import KEY
from tests.runtime.test_kept_models import KEPT, rows

FILES = 60 * int(os.environ.get("GRAPHC_EXAMPLES", 5))
READER = """
    import resource, sys
    import numpy as np
    import graphc_serving, jax, safetensors.numpy, jax.export
    jax.devices()
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
    for path in sys.stdin.read().split():
        try:
            model = graphc_serving.load(path)
        except graphc_serving.ModelError as error:
            print("ModelError", error.args[0].replace(chr(10), " ")[:200])
        else:
            print("loaded")
"""


def header(content):
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def with_header(told, rest, size=None):
    text = json.dumps(told).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + rest


def flipped(content, dice):
    """Flip some bits."""
    found = bytearray(content)
    for _ in range(dice.choice([1, 1, 3, 20])):
        found[dice.randrange(len(found))] ^= 1 << dice.randrange(8)
    return bytes(found)


def stated(content, dice):
    """Change the length that the header has by its own account."""
    size = dice.choice([0, 1, 7, 2**20, 2**26, 2**32, 2**34, 2**63 - 1, 2**64 - 1])
    return size.to_bytes(8, "little") + content[8:]


def offset(content, dice):
    """Change the place of a tensor, or its shape and dtype."""
    told, rest = header(content)
    name = dice.choice([k for k in told if k != "__metadata__"])
    entry = told[name]
    huge = dice.choice([0, -1, 1, 2**31, 2**34, 2**62, 2**64, 1e300, None, "1"])
    if dice.random() < 0.5:
        entry["data_offsets"][dice.randrange(2)] = huge
    else:
        entry["shape"] = dice.choice([[huge], [huge, 2], [], [2**31] * 3, huge])
        entry["dtype"] = dice.choice([entry["dtype"], "F64", "F4", "X", 3])
    return with_header(told, rest)


def replaced(value, dice):
    """A JSON value with something in it replaced or deleted."""
    others = [None, True, -1, 2**31, 2**62, 2**70, 1.5, "", "x", [], {}, [[2**62]]]
    if not isinstance(value, (list, dict)) or not value or dice.random() < 0.15:
        return dice.choice(others)
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = dice.choice(list(keys))
    copied = dict(value) if isinstance(value, dict) else list(value)
    if dice.random() < 0.1:
        del copied[key]
    else:
        copied[key] = replaced(copied[key], dice)
    return copied


def remade(content, dice):
    """Change the manifest, with a digest that fits."""
    told, _ = header(content)
    manifest, tensors = json.loads(told["__metadata__"][KEY]), load(content)
    key = dice.choice([k for k in manifest if k not in ("digest", "format")])
    manifest[key] = replaced(manifest[key], dice)
    manifest["digest"] = digest(manifest, tensors)
    return save(tensors, {KEY: json.dumps(manifest)})


WAYS = [
    lambda content, dice: content[: dice.randrange(len(content))],
    lambda content, dice: dice.randbytes(dice.randrange(2000)),
    lambda content, dice: content + dice.randbytes(dice.randrange(1, 99)),
    *(flipped, stated, offset, remade, remade),
]
MANY = b'{"a":[' + b"[]," * 2**21 + b"[]]}"  # 6 MB, and 170 MB as objects
DEEP = b'{"a":' + b"[" * 2**20
FIXED = [
    b"",
    b"{",
    bytes(8),
    (2).to_bytes(8, "little") + b"{}",
    (2**34).to_bytes(8, "little") + b"{" + bytes(2**16),
    len(MANY).to_bytes(8, "little") + MANY,
    len(DEEP).to_bytes(8, "little") + DEEP,
    with_header({"__metadata__": {KEY: "[" * 10**6}}, b""),
    with_header({"__metadata__": {KEY: '{"format": 1e999}'}}, b""),
    with_header({"__metadata__": {KEY: '{"format": 4, "x": "\\ud800"}'}}, b""),
]


def test_reading_takes_no_more_memory_than_files_have(tmp_path):
    dice, made = random.Random(0), [*FIXED]
    kept = [path.read_bytes() for path in sorted(KEPT.glob("*.model"))]
    while len(made) < FILES:
        made.append(dice.choice(WAYS)(dice.choice(kept), dice))
    paths = []
    for i, content in enumerate(made):
        paths.append(tmp_path / f"{i}")
        paths[-1].write_bytes(content)
    holes = tmp_path / "holes"
    with open(holes, "wb") as file:
        file.write((2**30).to_bytes(8, "little") + b"{")
        file.truncate(2**35)
    command = [sys.executable, "-c", textwrap.dedent(READER)]
    told = "\n".join(map(str, [*paths, holes]))
    one_arena = {**os.environ, "MALLOC_ARENA_MAX": "1"}  # none for XLA's threads
    found = subprocess.run(
        command, input=told, capture_output=True, text=True, env=one_arena
    )
    lines = found.stdout.splitlines()
    assert found.returncode == 0 and len(lines) == len(paths) + 1, found.stderr
    assert lines[-1].endswith(f"it has more than {2**34} bytes")
    loaded = sum(line == "loaded" for line in lines)
    assert loaded < len(lines) / 4


def test_what_a_file_computes_is_no_crash(tmp_path):
    """These files can be read, but their steps ask for too much."""
    path, dice = tmp_path / "model", random.Random(1)
    content, ran = (KEPT / "format_4_padded.model").read_bytes(), 0
    for _ in range(FILES // 10):
        path.write_bytes(remade(content, dice))
        try:
            model = graphc_serving.load(path)
            model(rows(3))
        except graphc.ModelError:
            continue
        ran += 1
    huge = 2**62

    def grown(manifest):
        (step,) = [s for s in manifest["steps"] if s[0] == "capacities"]
        step[3] = [[huge] for _ in step[3]]

    told, _ = header(content)
    manifest, tensors = json.loads(told["__metadata__"][KEY]), load(content)
    grown(manifest)
    manifest["digest"] = digest(manifest, tensors)
    path.write_bytes(save(tensors, {KEY: json.dumps(manifest)}))
    with pytest.raises(graphc.ModelError, match="too little memory for an array of"):
        graphc_serving.load(path)(rows(3))


def test_what_is_no_regular_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    message = "pipe is not a model: it is not a regular"
    with pytest.raises(graphc.ModelError, match=message):
        graphc_serving.load(pipe)
    with pytest.raises(IsADirectoryError):
        graphc_serving.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        graphc_serving.load(tmp_path / "absent")
