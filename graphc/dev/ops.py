"""The text of docs/ops.md: every primitive, and how each backend treats it.

Run `python -m graphc.dev regenerate ops` after adding an op; a test compares the file.
"""

import graphc.tensor  # noqa: F401  (lets the op families join)
from graphc.ir.graph.op import (
    BATCHING,
    EMISSION,
    GRADIENTS,
    PADDING,
    PRIMITIVES,
    Primitive,
)
from graphc.ir.namespace import FUNCTIONS
from graphc.ops.common.conditions import BOUNDS

OF_GRAPHS = {"constant", "input", "size"}  # known to the mask pass itself
HEAD = """\
# Primitives and functions

Written by `python -m graphc.dev regenerate ops`.

Every function of `graphc.tensor` is either a primitive below or composed of them.
A primitive runs on a backend or is refused there with a reason. "Sizes": integer
results are followed as sizes, so that they can be used in shapes without a host read.
"Bounds": what `check=True` adds. "Gradient", "vmap" and "padding" (the mask rule):
whether there is one, or why not. Without a mask rule an op is computed on true sizes.

| primitive | inputs | NumPy | JAX | gradient | vmap | padding | sizes | bounds \
| what it does |
|---|---|---|---|---|---|---|---|---|---|
"""


def backend_cell(primitive: Primitive, backend: str) -> str:
    """`yes` if the backend has a rule, or the reason why not."""
    if primitive in EMISSION[backend]:
        return "yes"
    return f"no: {EMISSION[backend].reason(primitive)}"


def gradient_cell(primitive: Primitive) -> str:
    """`yes`, with the inputs that have no gradient, or the reason why there is none."""
    if primitive not in GRADIENTS:
        return f"no: {GRADIENTS.reason(primitive)}" if primitive.arguments else "none"
    refused = [f"not in {k}: {why}" for k, why in primitive.no_gradient_for.items()]
    return "; ".join(["yes", *refused])


def batch_cell(primitive: Primitive) -> str:
    """`yes` if `vmap` takes the primitive, or the reason why not."""
    if primitive.elementwise or primitive in BATCHING or not primitive.arguments:
        return "yes"
    return f"no: {BATCHING.reason(primitive)}"


def padding_cell(primitive: Primitive) -> str:
    """`yes` if there is a mask rule, or the reason why not."""
    ruled = primitive.elementwise or primitive in PADDING
    if ruled or primitive.name in OF_GRAPHS:
        return "yes"
    return f"no: {PADDING.reason(primitive)}"


def first_line(primitive: Primitive) -> str:
    """The first line of the docstring of a primitive, or of the function it serves."""
    doc = primitive.__dict__.get("__doc__")
    name = primitive.name
    function = FUNCTIONS.get(name) or FUNCTIONS.get(name.replace("_", ".", 1))
    text = doc or (function.__doc__ if function else "") or ""
    return text.strip().splitlines()[0] if text.strip() else ""


def row(primitive: Primitive) -> str:
    """The line of the table for a primitive."""
    what = first_line(primitive)
    cells = [
        f"`{primitive.name}`",
        ", ".join(primitive.arguments).replace("*", r"\*") or "none",
        backend_cell(primitive, "numpy"),
        backend_cell(primitive, "jax"),
        gradient_cell(primitive),
        batch_cell(primitive),
        padding_cell(primitive),
        "followed" if primitive.sizes else "opaque",
        "checked" if primitive in BOUNDS else "none needed",
        what.replace("|", r"\|"),
    ]
    return f"| {' | '.join(cells)} |"


def text() -> str:
    """The whole text of docs/ops.md."""
    rows = [row(PRIMITIVES[n]) for n in sorted(PRIMITIVES) if n != "input"]
    spaces: dict[str, list[str]] = {}
    for name in sorted(n for n in FUNCTIONS if not n.startswith("_")):
        space, _, short = name.rpartition(".")
        spaces.setdefault(space, []).append(short)
    lists = []
    for space, names in sorted(spaces.items()):
        title = f"gt.{space}" if space else "gt"
        listed = ", ".join(f"`{n}`" for n in names)
        lists.append(f"\n## Functions of `{title}` ({len(names)})\n\n{listed}\n")
    return HEAD + "\n".join(rows) + "\n" + "".join(lists)
