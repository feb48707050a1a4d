"""Identifiers that are safe, unique and as close to the user's names as possible."""

import builtins
import keyword
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from graphc.errors import SourceLocation
from graphc.ir.graph.bodies import Body, BodyCall
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.walk import operands
from graphc.ir.sizes.dims import Dim, Symbol
from graphc.ir.sizes.names import NamesOnce

RESERVED = {
    *keyword.kwlist,
    *keyword.softkwlist,
    *dir(builtins),
    *("jax", "jnp", "np", "program", "check_inputs", "expect", "agree", "integer"),
    *("scipy", "ProgramError", "require", "compiling", "CHECKED", "NEEDS_X64", "sizes"),
    "ROOMS",
    *("kind", "fits", "key", "segment", "on_padded", "on_device", "misfits"),
    *("MESH", "PROGRAM", "functools", "on_mesh"),
    *("described", "misfit", "remedy", "castable", "converted"),
}


OUR_PREFIXES = "segment_", "at_place_", "ROWS_", "GUESSES_"  # each followed by a number


@lru_cache(maxsize=4096)
def sanitise(name: str) -> str:
    """`name` as an ASCII identifier that is no keyword, builtin or name of graphc's.

    >>> sanitise("x); import os"), sanitise("sum"), sanitise("β"), sanitise("2d")
    ('x_import_os', 'sum_', 'beta', '_2d')
    """
    plain = unicodedata.normalize("NFKC", name)
    ascii_only = "".join(c if c.isascii() else _spelled_letter(c) for c in plain)
    safe = re.sub(r"[^0-9A-Za-z]+", "_", ascii_only).strip("_")[:40] or "value"
    safe = f"_{safe}" if safe[0].isdigit() else safe
    return f"{safe}_" if safe in RESERVED or safe.startswith(OUR_PREFIXES) else safe


def _spelled_letter(character: str) -> str:
    """The last word of the character's Unicode name: "beta" for β; else "_"."""
    words = unicodedata.name(character, "").split()
    return words[-1].lower() if words and character.isalpha() else "_"


class Names(NamesOnce):
    """Hands out identifiers, each once."""

    def unique(self, hint: str) -> str:
        """`hint` made safe, with a number appended where the name is taken."""
        return self.once(sanitise(hint))


def _loop_output_name(value: Value) -> str:
    """A name for an output of a capacity-doubling loop."""
    params = value.node.params
    place = value.index - params["carries"]
    if place < 0:
        body: Body = params["body"].content
        return body.inputs[value.index].name if value.index else "going"
    return "kept" if place else "steps"


def sizes_of_same_name(call: BodyCall) -> dict[Symbol, Symbol]:
    """Map sizes of a body to the outer symbols of the same name passed for them.

    Each outer symbol is used for one size only, the first.
    """
    inner_sizes: dict[Symbol, Symbol] = {}
    for symbol, size in call.sizes.items():
        if isinstance(size, Dim) and size.is_symbol:
            outer = size.symbols[0]
            if outer is not symbol and outer.name == symbol.name:
                inner_sizes.setdefault(outer, symbol)
    return {symbol: outer for outer, symbol in inner_sizes.items()}


class Hints:
    """Names that the user gave to values: of an input, or of the variable assigned to.

    In `h = gt.tanh(x @ w)` the outermost call, tanh, is assigned: its node is named h.
    """

    def __init__(self, nodes: Iterable[Node], outputs: dict[Value, str]) -> None:
        self._outputs = outputs
        self._inner = {  # values that other nodes of the same call use
            v for node in nodes for v in operands(node) if v.node.place is node.place
        }
        # Keyed by the id of a place, which the entry keeps alive: hashing it takes
        # longer.
        self._assigned: dict[int, tuple[SourceLocation, str]] = {}

    def hint(self, value: Value) -> str:
        """A name for `value`, not yet safe or unique."""
        node = value.node
        if node.primitive is INPUT:
            return value.name
        if node.primitive.driven:
            return _loop_output_name(value)
        if value in self._outputs:
            return self._outputs[value]
        if value not in self._inner and len(node.outputs) == 1:
            return self._assigned_to(node.place) or node.primitive.name
        return node.primitive.name

    def _assigned_to(self, place: SourceLocation) -> str:
        entry = self._assigned.get(id(place))
        if entry is None:
            entry = self._assigned[id(place)] = place, place.assigned
        return entry[1]
