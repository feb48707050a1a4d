"""The texts of graphc/ir/functions/*.pyi: functions, methods, primitives, dtypes.

Functions join `F` when their modules are imported, which type checkers and editors
cannot see. Run `python -m graphc.dev regenerate stubs` after adding a function or
changing its signature; a test compares the files.
"""

import inspect
import keyword
import re
from collections.abc import Callable
from typing import Any

from graphc.ir.graph.accepted_types import NAMES
from graphc.ir.graph.op import PRIMITIVES
from graphc.ir.namespace import FUNCTIONS, METHODS, SPACES
from graphc.ir.types import DTYPES

HEAD = "# Written by `python -m graphc.dev regenerate stubs`.\n"
MODULE = re.compile(r"\b(numpy|types|collections\.abc|graphc(?:\.\w+)*)\.\w+\b(?!\.)")
TYPING = re.compile(r"\b(Any|Literal|Optional)\b")
ELSEWHERE = {  # names as annotations spell them
    "Value": "graphc.ir.graph.nodes.Value",
    "Known": "graphc.ops.arrays.sizes.Known",
    "module": "types.ModuleType",
    **{name: f"graphc.ir.graph.accepted_types.{name}" for name in NAMES},
}


def annotation(annotated: object) -> str:
    """An annotation as text, its names with their modules except those of `typing`."""
    if annotated is inspect.Parameter.empty:
        return "Any"
    if not isinstance(annotated, str):
        annotated = inspect.formatannotation(annotated)
    text = (
        annotated.replace("typing.", "").replace("'", '"').replace('"Known"', "Known")
    )
    names = "|".join(ELSEWHERE)
    return re.sub(rf"(?<![.\w])({names})\b", lambda m: ELSEWHERE[m[0]], text)


def parameter(p: inspect.Parameter) -> str:
    """One parameter with its annotation, and `...` if it has a default."""
    stars = "*" * (p.kind is p.VAR_POSITIONAL) + "**" * (p.kind is p.VAR_KEYWORD)
    default = "" if p.default is p.empty else " = ..."
    return f"{stars}{p.name}: {annotation(p.annotation)}{default}"


def parameters(signature: inspect.Signature, is_method: bool) -> str:
    """The parameters as a stub lists them; the first of a method is `self`."""
    texts: list[str] = []
    kind: Any = None
    for i, p in enumerate(signature.parameters.values()):
        if kind is p.POSITIONAL_ONLY is not p.kind:
            texts.append("/")
        if p.kind is p.KEYWORD_ONLY and kind not in (
            p.KEYWORD_ONLY,
            p.VAR_POSITIONAL,
        ):
            texts.append("*")
        texts.append("self" if is_method and not i else parameter(p))
        kind = p.kind
    return ", ".join([*texts, *["/"] * (kind is inspect.Parameter.POSITIONAL_ONLY)])


def definition(
    name: str, function: Callable[..., object], is_method: bool = False
) -> str:
    """A function or method as one line of a stub; a class by its name."""
    if inspect.isclass(function):
        return f"{name} = {function.__module__}.{function.__qualname__}"
    signature = inspect.signature(function)
    result = annotation(signature.return_annotation)
    return f"def {name}({parameters(signature, is_method)}) -> {result}: ..."


def module_text(lines: list[str]) -> str:
    """A stub of these definitions, with the imports that they need."""
    text = "\n".join(lines)
    imports = [f"import {m}" for m in sorted(set(MODULE.findall(text)))]
    names = sorted(set(TYPING.findall(text)))
    imports += [f"from typing import {', '.join(names)}"] * bool(names)
    return "\n".join([HEAD, *imports, "", text, ""])


def primitives() -> list[str]:
    """The primitives as attributes, except those that tests and users declare."""
    names = sorted(
        p.name + "_" * keyword.iskeyword(p.name)
        for p in PRIMITIVES.values()
        if p.infer.__module__.startswith("graphc.")
    )
    return [f"    {name}: graphc.ir.graph.op.Primitive" for name in names]


def text() -> dict[str, str]:
    """The text of each stub, by file name."""
    spaces: dict[str, list[str]] = {space: [] for space in ("", *SPACES)}
    for name, function in sorted(FUNCTIONS.items()):
        space, _, short = name.rpartition(".")
        spaces[space].append(definition(short, function))
    reexports = [f"from . import {s} as {s}" for s in SPACES]
    methods = [
        f"    {definition(name, function, is_method=True)}"
        for name, function in sorted(METHODS.items())
    ]
    files = {f"{space}.pyi": module_text(spaces[space]) for space in SPACES}
    files["__init__.pyi"] = module_text([*reexports, *spaces[""]])
    files["dtypes.pyi"] = module_text([f"{name}: numpy.dtype[Any]" for name in DTYPES])
    files["primitives.pyi"] = module_text(["class Primitives:", *primitives()])
    files["methods.pyi"] = module_text(["class Methods:", *methods])
    return files
