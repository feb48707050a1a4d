"""The rules that changed a graph before it was planned, as records with short texts."""

from collections import Counter
from collections.abc import Iterable

from graphc.errors import shortened
from graphc.ir.graph.bodies import Body, bodies_of
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Value
from graphc.rewriting.engine.fixpoint import Application
from graphc.show.nodes import LONGEST, Nodes, op_name, params_text
from graphc.show.records import RewriteRecord

DEPTH, WIDTH = 3, 4  # of the texts: nesting of ops, arguments of each
MOST_OPS = 8  # kinds of ops that are listed of the graph inside a loop
MOST = 1000  # records, at most
LONGEST_TEXT = 160  # characters
RewriteKey = tuple[int, str, str, str]


class Rewrites:
    """Records of applied rules; those with the same texts for the same line are one.

    `left_out` counts the applications that have no record.
    """

    def __init__(self, log: Iterable[Application], nodes: Nodes) -> None:
        self._nodes = nodes
        self._texts: dict[tuple[Value, int], str] = {}
        self.left_out: int = 0
        order: dict[RewriteKey, list[Application]] = {}
        for one in log:
            key = self._key(one)
            if key in order or len(order) < MOST:
                order.setdefault(key, []).append(one)
            else:
                self.left_out += 1
        self.records: tuple[RewriteRecord, ...] = tuple(
            [_record(*entry) for entry in order.items()]
        )

    def _key(self, one: Application) -> RewriteKey:
        line = self._nodes.tables.line(one.place)
        before, after = self.text(one.before), self.text(one.after)
        return line, one.rule.name, before, after

    def text(self, value: Value, depth: int = DEPTH) -> str:
        """Write a value as an expression of a few ops; deeper ones are only named."""
        known = self._texts.get((value, depth))
        if known is None:
            known = self._texts[value, depth] = self._expression(value, depth)
        return known

    def _expression(self, value: Value, depth: int) -> str:
        node = value.node
        if node.primitive.inline:
            return self._nodes.literal(value)
        if node.primitive is INPUT:
            return shortened(value.name, LONGEST)
        name = op_name(node)
        if not depth:
            return f"{name}(...)" if node.inputs else f"{name}()"
        bodies = bodies_of(node)
        inner = 0 if bodies else depth - 1  # the room is for the graphs inside
        parts = [self.text(v, inner) for v in node.inputs[:WIDTH]]
        parts += ["..."] * (len(node.inputs) > WIDTH)
        parts += [f"body=[{_ops_of(body)}]" for body in bodies]
        parts += [text] if (text := params_text(node.params)) else []
        return shortened(f"{name}({', '.join(parts)})", LONGEST_TEXT)


def _ops_of(body: Body) -> str:
    """List the ops of a graph inside a node, with how many there are of each."""
    shown = (op_name(n) for n in body.nodes if not n.primitive.inline)
    counts = Counter(shown)
    parts = [f"{n} {op}" if n > 1 else op for op, n in counts.items()]
    return ", ".join(parts[:MOST_OPS]) + ", ..." * (len(parts) > MOST_OPS)


def _record(key: RewriteKey, ones: list[Application]) -> RewriteRecord:
    line, name, before, after = key
    rule = ones[0].rule
    about = (rule.doc or "").strip().split("\n")[0]
    return RewriteRecord(name, about, rule.exact, line, before, after, len(ones))
