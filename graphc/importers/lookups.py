"""Whether Python code looks a name up, or code of C that it has called, and why."""

import dis
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType

_ASKING = frozenset(["getattr", "hasattr"])
_LOADS = frozenset(["LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"])
_TESTS = frozenset(["IS_OP", "MATCH_CLASS"])
_ENDS = ("STORE_", "POP_", "RETURN_", "JUMP_")  # of an operand, or of a statement


def looks_up(frame: FrameType, name: str) -> bool:
    """Whether the instruction that a frame stands at loads this name of an object."""
    code = frame.f_code
    if code.co_name == "<module>":  # a module that is imported keeps what it looks up
        return False
    return _loads(code).get(frame.f_lasti) == name


def may_ask(frame: FrameType, name: str) -> bool:
    """Whether the code of a frame asks for names as texts, this one among them.

    The text is written there, or a variable of the frame is it.
    """
    code = frame.f_code
    if _ASKING.isdisjoint(code.co_names):
        return False
    texts = [text for text in frame.f_locals.values() if type(text) is str]
    return name in code.co_consts or name in texts


def is_for_identity(frame: FrameType, name: str) -> bool:
    """Whether a frame that looks a name up does not call it, and asks what `is` it.

    All that the code keeps under that name is to be the same object then.
    """
    return name in _compared(frame.f_code) and not is_to_call(frame)


def is_to_call(frame: FrameType) -> bool:
    """Whether the instruction that a frame stands at loads what is called next."""
    return frame.f_lasti in _calls(frame.f_code)


@lru_cache(maxsize=512)
def tested(code: CodeType) -> frozenset[str]:
    """The names in code, and in functions within it, that may be what `is` tests.

    So may those be that it matches: a pattern takes classes alone.
    """
    tests = {i.opname for i in dis.get_instructions(code)} & _TESTS
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    names = frozenset(code.co_names) if tests else frozenset()
    return names.union(*map(tested, inner))


@lru_cache(maxsize=512)
def _compared(code: CodeType) -> frozenset[str]:
    """The names that code loads of objects for one side of `is`, or of `is not`."""
    compared, loaded = set[str](), list[str]()
    for instruction in dis.get_instructions(code):
        if instruction.opname in _LOADS:
            loaded.append(instruction.argval)
        elif instruction.opname == "IS_OP":
            compared.update(loaded)
        if instruction.opname.startswith(_ENDS):
            loaded = []
    return frozenset(compared)


@lru_cache(maxsize=512)
def _calls(code: CodeType) -> frozenset[int]:
    """The places of instructions, and of their caches, that load what is called.

    Python marks calls by a NULL, before or after what is called or beside a load of it.
    """
    steps = list(_with_places(code))
    places = set[int]()
    is_marked = False
    for (before, _), (step, places_of_step), (after, _) in zip(
        steps, steps[1:], steps[2:], strict=False
    ):
        if step.opname not in _LOADS:
            is_marked = "NULL" in step.argrepr or before.opname == "PUSH_NULL"
        elif after.opname not in _LOADS:
            marks = step.opname == "LOAD_METHOD", "NULL" in step.argrepr
            if is_marked or any(marks) or after.opname == "PUSH_NULL":
                places.update(places_of_step)
    return frozenset(places)


@lru_cache(maxsize=512)
def _loads(code: CodeType) -> dict[int, str]:
    """The names that code loads of objects, by the places of the instructions."""
    return {
        place: instruction.argval
        for instruction, places in _with_places(code)
        if instruction.opname in _LOADS
        for place in places
    }


def _with_places(code: CodeType) -> Iterator[tuple[dis.Instruction, range]]:
    """Instructions, and where a frame that stands at one of them may be."""
    instructions = list(dis.get_instructions(code))
    ends = [*(i.offset for i in instructions[1:]), len(code.co_code)]
    # It may stand at one of the caches that follow an instruction.
    for instruction, end in zip(instructions, ends, strict=True):
        yield instruction, range(instruction.offset, end, 2)
