"""Sizes and arguments as the user types them: `n=1..500`, `float32[n,d]`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from graphc.command.errors import CommandError, without_place
from graphc.errors import GraphError
from graphc.ir.types import DType, dtype_of
from graphc.transform.planning.forecast import sizes_of_calls

MOST_CALLS = 100_000
_SIZES = re.compile(r"(?P<name>[^\W\d]\w*)=(?P<numbers>[\d.,:]+)")
_RANGE = re.compile(r"(?P<first>\d+)\.\.(?P<last>\d+)(:(?P<step>[1-9]\d*))?")
_ARRAY = re.compile(r"(?P<dtype>\w+)(\[(?P<shape>[\w\s,]*)\])?")


def sizes_of(texts: Iterable[str]) -> dict[str, list[int]]:
    """The sizes of calls by name, from `n=1..500`, `n=1..500:7`, `n=3,5,9` or `n=8`.

    Raises CommandError for text that gives no sizes, and for a name given twice.
    """
    sizes: dict[str, list[int]] = {}
    for text in texts:
        match = _SIZES.fullmatch(text)
        if match is None:
            raise CommandError(
                f"--sizes cannot be {text!r}: write n=1..500, "
                "n=1..500:10 (every tenth) or n=3,5,9"
            )
        name = match["name"]
        if name in sizes:
            raise CommandError(f"--sizes says {name} twice")
        sizes[name] = _numbers(name, match["numbers"])
    return sizes


def _numbers(name: str, text: str) -> list[int]:
    numbers: list[int] = []
    for part in text.split(","):
        ends = _RANGE.fullmatch(part)
        if ends is not None:
            step = int(ends["step"] or 1)
            listed = range(int(ends["first"]), int(ends["last"]) + 1, step)
            if not listed:
                raise CommandError(
                    f"--sizes {name}={part} is empty: the first is larger"
                )
        elif part.isdecimal():
            listed = range(int(part), int(part) + 1)
        else:
            raise CommandError(
                f"--sizes {name}={part}: {part!r} is neither a size nor a range"
            )
        if len(numbers) + len(listed) > MOST_CALLS:
            raise CommandError(f"--sizes {name}: more than {MOST_CALLS} sizes")
        numbers += listed
    return numbers


def each_or_all(sizes: Mapping[str, list[int]]) -> dict[str, list[int] | int]:
    """Sizes as `plan.forecast` takes them: one per call, or one for all calls.

    Raises CommandError for lists of different lengths.
    """
    lengths = {name: len(listed) for name, listed in sizes.items() if len(listed) > 1}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{count} for {name}" for name, count in lengths.items())
        raise CommandError(f"--sizes lists {counts}: one size per call, or one for all")
    return {name: n if len(n) > 1 else n[0] for name, n in sizes.items()}


def calls_of(sizes: Mapping[str, list[int]]) -> list[dict[str, int]]:
    """The sizes of each call, from lists of one length and sizes that hold for all."""
    return sizes_of_calls(sizes, each_or_all(sizes), "--sizes")


@dataclass(frozen=True)
class ArraySpec:
    """An array as the user types it: its dtype, and its sizes as numbers or names."""

    dtype: DType
    shape: tuple[int | str, ...]

    def drawn(self, sizes: Mapping[str, int], random: np.random.Generator) -> object:
        """Draw an array of these sizes: normal, integers from 0 to 9, or booleans."""
        unknown = [n for n in self.shape if isinstance(n, str) and n not in sizes]
        if unknown:
            raise CommandError(
                f"{self} needs the size {unknown[0]}: add --sizes {unknown[0]}=8"
            )
        shape = tuple(n if isinstance(n, int) else sizes[n] for n in self.shape)
        return random_array(self.dtype, shape, random)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"


def random_array(
    dtype: DType, shape: tuple[int, ...], random: np.random.Generator
) -> object:
    """Draw an array of random numbers of any dtype."""
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        return random.integers(0, 10, shape).astype(dtype)
    numbers = random.standard_normal(shape)
    if dtype.kind == "c":
        numbers = numbers + 1j * random.standard_normal(shape)
    return np.asarray(numbers).astype(dtype)


def array_specs(texts: Iterable[str]) -> list[ArraySpec]:
    """The arrays that these texts describe: `float32[n,d]`, `int32[n]`, `float64`."""
    return [_array_spec(text) for text in texts]


def _array_spec(text: str) -> ArraySpec:
    match = _ARRAY.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"--args cannot be {text!r}: write float32[n,d] or int32")
    try:
        dtype = dtype_of(match["dtype"])
    except GraphError as error:
        raise CommandError(f"--args {text}: {without_place(error)}") from None
    words = re.split(r"[,\s]+", (match["shape"] or "").strip())
    return ArraySpec(dtype, tuple(_size(text, word) for word in words if word))


def _size(text: str, word: str) -> int | str:
    if word.isdecimal():
        return int(word)
    if word.isidentifier():
        return word
    raise CommandError(f"--args {text}: {word!r} is neither a size nor a name")
