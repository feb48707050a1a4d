"""Whether Python code looks a name up, or code of C that it has called."""

import dis
from functools import lru_cache
from types import CodeType, FrameType

_ASKING = frozenset(["getattr", "hasattr"])
_LOADS = frozenset(["LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"])


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


@lru_cache(maxsize=512)
def _loads(code: CodeType) -> dict[int, str]:
    """The names that code loads of objects, by the places of the instructions."""
    instructions = list(dis.get_instructions(code))
    ends = [*(i.offset for i in instructions[1:]), len(code.co_code)]
    # A frame may stand at one of the caches that follow an instruction.
    return {
        place: instruction.argval
        for instruction, end in zip(instructions, ends, strict=True)
        if instruction.opname in _LOADS
        for place in range(instruction.offset, end, 2)
    }
