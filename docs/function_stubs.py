"""Writes graphc/ir/functions/*.pyi: functions, methods, primitives and dtypes.

Functions join `F` when their modules are imported, which type checkers and editors
cannot see. Run `python docs/function_stubs.py` after adding a function or changing
its signature; a test compares the files.
"""

import inspect
import keyword
import pathlib
import re
from collections.abc import Callable
from typing import Any

import graphc
from graphc.ir.graph.op import PRIMITIVES
from graphc.ir.namespace import FUNCTIONS, METHODS, SPACES
from graphc.ir.types import DTYPES

TARGET = pathlib.Path(graphc.__file__).parent / "ir" / "functions"
HEAD = "# Written by `python docs/function_stubs.py`.\n"
MODULE = re.compile(r"\b(numpy|types|collections\.abc|graphc(?:\.\w+)*)\.\w+\b(?!\.)")
TYPING = re.compile(r"\b(Any|Literal|Optional)\b")
ELSEWHERE = {  # names as annotations spell them
    "Value": "graphc.ir.graph.nodes.Value",
    "Known": "graphc.ops.arrays.sizes.Known",
    "module": "types.ModuleType",
}


def annotation(given: Any) -> str:
    """An annotation as text, its names with their modules but those of `typing`."""
    if given is inspect.Parameter.empty:
        return "Any"
    text = given if isinstance(given, str) else inspect.formatannotation(given)
    text = text.replace("typing.", "").replace("'", '"').replace('"Known"', "Known")
    names = "|".join(ELSEWHERE)
    return re.sub(rf"(?<![.\w])({names})\b", lambda m: ELSEWHERE[m[0]], text)


def parameter(given: inspect.Parameter) -> str:
    """One parameter with its annotation, and `...` where it has a default."""
    stars = {given.VAR_POSITIONAL: "*", given.VAR_KEYWORD: "**"}.get(given.kind, "")
    default = "" if given.default is given.empty else " = ..."
    return f"{stars}{given.name}: {annotation(given.annotation)}{default}"


def parameters(signature: inspect.Signature, own: bool) -> str:
    """The parameters as a stub lists them; the first of a method is `self`."""
    texts: list[str] = []
    kind: Any = None
    for i, given in enumerate(signature.parameters.values()):
        if kind is given.POSITIONAL_ONLY is not given.kind:
            texts.append("/")
        if given.kind is given.KEYWORD_ONLY and kind not in (
            given.KEYWORD_ONLY,
            given.VAR_POSITIONAL,
        ):
            texts.append("*")
        texts.append("self" if own and not i else parameter(given))
        kind = given.kind
    return ", ".join([*texts, *["/"] * (kind is inspect.Parameter.POSITIONAL_ONLY)])


def definition(name: str, function: Callable[..., Any], own: bool = False) -> str:
    """A function or method as one line of a stub; a class by its name."""
    if inspect.isclass(function):
        return f"{name} = {function.__module__}.{function.__qualname__}"
    signature = inspect.signature(function)
    result = annotation(signature.return_annotation)
    return f"def {name}({parameters(signature, own)}) -> {result}: ..."


def module_text(lines: list[str]) -> str:
    """A stub of these definitions with the imports that they need."""
    text = "\n".join(lines)
    imports = [f"import {m}" for m in sorted(set(MODULE.findall(text)))]
    found = sorted(set(TYPING.findall(text)))
    imports += [f"from typing import {', '.join(found)}"] * bool(found)
    return "\n".join([HEAD, *imports, "", text, ""])


def primitives() -> list[str]:
    """The primitives as attributes, but for those that tests and users declare."""
    ours = (p for p in PRIMITIVES.values() if p.infer.__module__.startswith("graphc."))
    names = sorted(p.name + "_" * keyword.iskeyword(p.name) for p in ours)
    return [f"    {name}: graphc.ir.graph.op.Primitive" for name in names]


def stubs() -> dict[str, str]:
    """The text of each stub by its file name."""
    spaces: dict[str, list[str]] = {space: [] for space in ("", *SPACES)}
    for name, function in sorted(FUNCTIONS.items()):
        space, _, own = name.rpartition(".")
        spaces[space].append(definition(own, function))
    reexports = [f"from . import {s} as {s}" for s in SPACES]
    methods = [f"    {definition(n, f, own=True)}" for n, f in sorted(METHODS.items())]
    files = {f"{space}.pyi": module_text(spaces[space]) for space in SPACES}
    files["__init__.pyi"] = module_text([*reexports, *spaces[""]])
    files["dtypes.pyi"] = module_text([f"{name}: numpy.dtype[Any]" for name in DTYPES])
    files["primitives.pyi"] = module_text(["class Primitives:", *primitives()])
    files["methods.pyi"] = module_text(["class Methods:", *methods])
    return files


def main() -> None:
    """Write the stubs."""
    TARGET.mkdir(exist_ok=True)
    for name, text in stubs().items():
        (TARGET / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
