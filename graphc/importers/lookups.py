"""Tell by bytecode whether Python code looks a name up, or C code that it calls."""

import dis
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType

from graphc.importers.reachable import nested_codes

_ASKING_FUNCTIONS = frozenset(["getattr", "hasattr"])
_LOADING_STEPS = frozenset(["LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"])
_TESTING_STEPS = frozenset(["IS_OP", "MATCH_CLASS"])
_END_PREFIXES = ("STORE_", "POP_", "RETURN_", "JUMP_")  # of operands, statements


def looks_up(frame: FrameType, name: str) -> bool:
    """Whether the current instruction of a frame loads this attribute of an object."""
    code = frame.f_code
    if code.co_name == "<module>":  # an imported module keeps what it looks up
        return False
    return _names_loaded(code).get(frame.f_lasti) == name


def may_ask(frame: FrameType, name: str) -> bool:
    """Whether the code of a frame may ask for this name as text.

    The code must use `getattr` or `hasattr`, and hold the text as a constant or in a
    variable.
    """
    code = frame.f_code
    if _ASKING_FUNCTIONS.isdisjoint(code.co_names):
        return False
    texts = [text for text in frame.f_locals.values() if type(text) is str]
    return name in code.co_consts or name in texts


def is_for_identity(frame: FrameType, name: str) -> bool:
    """Whether a frame looks a name up to compare it with `is`, rather than to call it.

    Everything that the code keeps under that name must then be the same object.
    """
    return name in _names_compared_by_is(frame.f_code) and not is_to_call(frame)


def is_to_call(frame: FrameType) -> bool:
    """Whether the current instruction of a frame loads what is called next."""
    return frame.f_lasti in _offsets_of_calls(frame.f_code)


@lru_cache(maxsize=512)
def names_tested_by_is(code: CodeType) -> frozenset[str]:
    """The names in code, and in functions within it, that `is` may test.

    Names that `match` may test are included, since patterns take classes only.
    """
    return frozenset(
        name
        for inner in nested_codes(code)
        if not _TESTING_STEPS.isdisjoint(i.opname for i in dis.get_instructions(inner))
        for name in inner.co_names
    )


@lru_cache(maxsize=512)
def _names_compared_by_is(code: CodeType) -> frozenset[str]:
    """The attribute names that code loads for one side of `is` or `is not`."""
    compared, loaded = set[str](), list[str]()
    for instruction in dis.get_instructions(code):
        if instruction.opname in _LOADING_STEPS:
            loaded.append(instruction.argval)
        elif instruction.opname == "IS_OP":
            compared.update(loaded)
        if instruction.opname.startswith(_END_PREFIXES):
            loaded = []
    return frozenset(compared)


@lru_cache(maxsize=512)
def _offsets_of_calls(code: CodeType) -> frozenset[int]:
    """The offsets of instructions, and of their caches, that load what is called.

    Python marks a call by a NULL, before or after the callee or next to a load of it.
    """
    steps = list(_instructions_with_offsets(code))
    places = set[int]()
    is_marked = False
    for (before, _), (step, places_of_step), (after, _) in zip(
        steps, steps[1:], steps[2:], strict=False
    ):
        if step.opname not in _LOADING_STEPS:
            is_marked = "NULL" in step.argrepr or before.opname == "PUSH_NULL"
        elif after.opname not in _LOADING_STEPS:
            marks = step.opname == "LOAD_METHOD", "NULL" in step.argrepr
            if is_marked or any(marks) or after.opname == "PUSH_NULL":
                places.update(places_of_step)
    return frozenset(places)


@lru_cache(maxsize=512)
def _names_loaded(code: CodeType) -> dict[int, str]:
    """The attribute names that code loads, by the offsets of the instructions."""
    return {
        place: instruction.argval
        for instruction, places in _instructions_with_offsets(code)
        if instruction.opname in _LOADING_STEPS
        for place in places
    }


def _instructions_with_offsets(
    code: CodeType,
) -> Iterator[tuple[dis.Instruction, range]]:
    """Yield instructions, each with the offsets of frames that stand at it."""
    instructions = list(dis.get_instructions(code))
    ends = [*(i.offset for i in instructions[1:]), len(code.co_code)]
    # A frame may stand at one of the caches that follow an instruction.
    for instruction, end in zip(instructions, ends, strict=True):
        yield instruction, range(instruction.offset, end, 2)
