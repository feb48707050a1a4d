"""The code of emitted text, whose ending, the same in all programs, is compiled once.

In small programs the ending is most of the text, and compiling it takes longer than
planning and printing the program.
"""

from functools import cache, lru_cache
from types import CodeType

from graphc.backends.prelude import helpers


def code_objects(text: str, filename: str) -> list[CodeType]:
    """Return code objects that, executed one after the other, do what `text` does."""
    ending = helpers()
    if not text.endswith(ending):
        return [compile(text, filename, "exec")]
    start = text[: -len(ending)]
    moved = _ending_at(filename, start.count("\n"))
    return [compile(start, filename, "exec"), moved]


@lru_cache(maxsize=256)  # small programs have few different lengths
def _ending_at(filename: str, lines: int) -> CodeType:
    return _move_code(_ending_code(), filename, lines)


@cache
def _ending_code() -> CodeType:
    return compile(helpers(), "<graphc program>", "exec")


def _move_code(code: CodeType, filename: str, lines: int) -> CodeType:
    """Move code further down its file, so that tracebacks show the program's lines."""
    parts = [
        _move_code(x, filename, lines) if isinstance(x, CodeType) else x
        for x in code.co_consts
    ]
    first = code.co_firstlineno + lines
    return code.replace(
        co_filename=filename, co_firstlineno=first, co_consts=tuple(parts)
    )
