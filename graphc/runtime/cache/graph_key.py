"""Keys of programs: a digest of all that the text of a program depends on.

The text of a graph only names the graphs inside its nodes, and says nothing about
source lines and bounds of sizes. Here all of that is written, to be digested and not to
be read; types are left out, which nearly halves the time.
"""

import os
import platform
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from types import ModuleType

import numpy as np

from graphc.analysis.cost import DeviceCosts
from graphc.errors import OWN_FILES, GraphError, SourceLocation, graph_error
from graphc.ir.config import config
from graphc.ir.graph.bodies import Body
from graphc.ir.graph.build import Data, as_size
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.op import Opaque
from graphc.ir.params.kinds import Text
from graphc.ir.sizes.dims import Dim, Symbol
from graphc.ir.sizes.text import expression, shared_parts
from graphc.ir.text.printer import MOST_WEIGHT, in_order
from graphc.ir.types import TensorType
from graphc.rewriting.default import ALL
from graphc.rewriting.engine.rule import Rules
from graphc.transform.policies import Bound, Pad, Specialize

PACKAGE = OWN_FILES.removesuffix(os.sep)


class _KeyText:
    """One graph in full, line by line; a value is written as its number.

    Types are left out, since they follow from those of the inputs by the rules of ops.
    """

    def __init__(self, graph: Graph, places: dict[SourceLocation, str]) -> None:
        self._places = places
        self._numbers: dict[Value, str] = {}
        self._symbols: dict[Symbol, str] = {}
        self._written: dict[Dim, str] = {}
        self.lines: list[str] = []
        for value, name in zip(graph.inputs, graph.input_names, strict=True):
            self._number(value.node)
            self.lines.append(f"{name!r} {value.name!r} {self.param(value.type)}")
        for node in in_order(graph):
            self.lines.append(self._line(node))
            self._number(node)
        outputs = [self._numbers[v] for v in graph.outputs]
        self.lines += [repr(outputs), repr(graph.output_names)]

    def _number(self, node: Node) -> None:
        for value in node.outputs:
            self._numbers[value] = f"v{len(self._numbers)}"
            if value._symbol is not None:
                self.lines.append(self._bounds(value._symbol))

    def _line(self, node: Node) -> str:
        inputs = " ".join([self._numbers[v] for v in node.inputs])
        params = [f"{k}={self.param(p)}" for k, p in node.params.items()]
        return f"{node.primitive.name} {inputs} {params} {self._place(node.place)}"

    def _place(self, place: SourceLocation) -> str:
        if place not in self._places:
            self._places[place] = f"{place} {place.assigned} {place.called}"
        return self._places[place]

    def _bounds(self, symbol: Symbol) -> str:
        upper = self.param(symbol.upper)
        return f"{symbol.name!r} {symbol.lower} {upper} {symbol.may_be_one}"

    def param(self, param: object) -> str:
        """Return a param as text. Raises GraphError where its kind has none."""
        match param:
            case Dim():
                return self._size(param)
            case tuple():
                return f"({', '.join(map(self.param, param))})"
            case Text():
                return repr(param.content)
            case Data():
                array = param.array
                digest = sha256(array.tobytes()).hexdigest()
                return f"{array.dtype.name}{array.shape}{digest}"
            case TensorType():
                return f"{param.dtype.name}{self.param(param.shape)}{param.weak}"
            case Opaque():
                return self._inside(param.content)
            case None | bool() | int() | float() | str() | np.dtype():
                return repr(param)
        raise graph_error(f"a {type(param).__name__} has no text", op="key")

    def _size(self, size: Dim) -> str:
        if size not in self._written:
            parts: dict[Dim, str] = {}
            for part in shared_parts(size) if size.weight > MOST_WEIGHT else ():
                text = expression(part, self._symbol, "clip({}, {})", parts)
                parts[part] = f"size{len(self._written)}"
                self._written[part] = parts[part]
                self.lines.append(text)
            text = expression(size, self._symbol, "clip({}, {})", parts)
            self._written[size] = text
        return self._written[size]

    def _symbol(self, symbol: Symbol) -> str:
        if symbol not in self._symbols:
            origin = symbol.origin
            if isinstance(origin, Value):
                if origin not in self._numbers:
                    problem = f"{origin!r} does not belong to the graph"
                    raise graph_error(problem, op="key")
                name = self._numbers[origin]
            else:
                name = f"n{len(self._symbols)}"
            self._symbols[symbol] = name
            self.lines.append(f"{name} {self._bounds(symbol)}")
        return self._symbols[symbol]

    def _inside(self, content: object) -> str:
        if isinstance(content, Body):
            return self._body(content)
        if isinstance(content, tuple):
            return f"({', '.join(map(self._inside, content))})"
        if isinstance(content, Node):  # a scan, the first results of which are its own
            return " ".join([self._numbers.get(v, "gone") for v in content.outputs])
        raise graph_error(f"a {type(content).__name__} has no text", op="key")

    def _body(self, body: Body) -> str:
        inner = _KeyText(body.graph, self._places)
        params = [inner._symbols.get(s, "unused") for s in body.size_params]
        return repr((inner.lines, params))

    def policy(self, key: object, policy: object) -> str:
        """Return the text of a size, which may be a name, and of its policy."""
        if not isinstance(policy, (str, Specialize, Pad, Bound)):
            raise graph_error("not a policy of graphc", op="key")
        size = as_size(key) if isinstance(key, (Value, Dim)) else key
        return f"{self.param(size)}: {policy!r}"


def key_of(
    graph: Graph,
    dims: object,
    rewrites: Rules,
    costs: DeviceCosts,
    jax: ModuleType | None,
    *others: object,
) -> str:
    """Return the key of a program, or "" if it depends on something without a text.

    Functions and rules of users have no text, and neither have budgets. `others` are
    what else the program depends on, as their `repr` shows.
    """
    known = ALL.on(costs)
    if not {*known, *known.compiled}.issuperset(rewrites):
        return ""
    rules = [rule.name for rule in rewrites]
    fixed = _versions(jax), rules, costs, config.float.name, config.max_bytes, others
    try:
        whole = _KeyText(graph, {})
        chosen = dims if isinstance(dims, Mapping) else {"": dims}
        policies = [whole.policy(k, p) for k, p in chosen.items()]
        text = "\n".join([repr(fixed), *policies, *whole.lines])
    except GraphError:
        return ""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@cache
def _versions(jax: ModuleType | None) -> tuple[str, ...]:
    """Return the versions of all that writes and runs programs, our files included."""
    versions = [platform.python_implementation(), platform.python_version()]
    versions += [np.__version__, *([] if jax is None else [jax.__version__])]
    stamps = sorted([*_stamps(PACKAGE), *_stamps(f"{PACKAGE}_serving")])
    return (*versions, sha256(repr(stamps).encode()).hexdigest())


def _stamps(folder: str) -> Iterator[tuple[str, int, int]]:
    """Yield our files with size and time: a version under development has no number."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _stamps(entry.path)
