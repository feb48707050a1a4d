"""Apply rules to a graph until none applies.

A pass goes over the nodes in topological order: a node is rebuilt on its replaced
inputs, then the rules of its primitive are tried, and the nodes of a replacement are
processed in the same way before the node is done. A rule therefore sees inputs that are
as simple as the rules can make them. Passes are repeated until one changes nothing,
since numbers of uses fall on the way. A value at which no rule applied is left out of
later passes, unless a number of uses that the rules asked for has changed since.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain
from operator import attrgetter

from graphc.errors import (
    GraphError,
    SourceLocation,
    graph_error,
    shortened,
    standing_at,
)
from graphc.ir.graph.bodies import Body, change_bodies, has_bodies
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import SERIALS, Graph, Node, Value
from graphc.ir.graph.op import rebuild
from graphc.ir.graph.replay import params_with_sizes, renewed
from graphc.ir.graph.walk import operands
from graphc.rewriting.engine.rule import Rule, Rules
from graphc.rewriting.engine.size_checks import with_size_checks

MOST_PASSES = 8
MOST_IN_PLACE = 50  # replacements of one value in one pass
MOST_PER_NODE = 20  # replacements per node of the graph, on the whole


@dataclass(frozen=True)
class Application:
    """A rule, the value that it replaced, and the replacement."""

    rule: Rule
    before: Value
    after: Value

    @property
    def place(self) -> SourceLocation:
        """The user's line of the replaced value."""
        return self.before.node.place

    def __str__(self) -> str:
        return (
            f"{self.place}: {self.rule.name}: {self.before.node.primitive.name} "
            f"{self.before.type} -> {self.after.node.primitive.name}"
        )


def rules_report(log: Iterable[Application]) -> str:
    """The rules that were applied, with their lines: the end of a report."""
    counts = Counter((str(a.place), a.rule.name) for a in log)
    if not counts:
        return ""
    lines = [
        f"  {place}: {name}" + (f" ({n} times)" if n > 1 else "")
        for (place, name), n in counts.items()
    ]
    return "\n".join(["", "", "rewritten before:", *lines])


@dataclass(frozen=True)
class Rewritten:
    """A rewritten graph, and the log of rules applied to it."""

    graph: Graph
    log: tuple[Application, ...]


def apply_late_rules(graph: Graph, rules: Rules) -> Rewritten:
    """Apply the late rules to a graph and to its bodies."""
    return _apply_in_bodies_first(graph, rules.late)


def apply_last_rules(graph: Graph, rules: Rules) -> Rewritten:
    """Apply the rules for graphs that nothing else will change any more."""
    return _apply_in_bodies_first(graph, rules.last)


def _apply_in_bodies_first(graph: Graph, rules: Rules) -> Rewritten:
    """Apply rules for whole graphs; loops that they make are left as they are."""
    log: list[Application] = []
    if rules:
        graph = _rewrite_bodies(graph, rules, log, _apply_in_bodies_first)
        graph = _apply_whole_graph_rules(graph, rules, log)
    return Rewritten(graph, tuple(log))


def rewritten(graph: Graph, rules: Rules) -> Rewritten:
    """Apply rules to a graph wherever they fit.

    Rules whose pattern is a function go first: it fits graphs as users write them,
    which other rules change. Rules for whole graphs go last, when graphs are simple,
    except for those that only save compilation.
    Raises GraphError where rules undo each other, naming them and the line, and where a
    rule gives a value of another type.
    """
    log: list[Application] = []
    simple = _apply_whole_graph_rules(graph, rules, log, compiling=True)
    functions = rules.functions
    for chosen in (functions, rules) if functions else (rules,):
        simple = _repeat_passes(chosen, simple, log)
    result = _apply_whole_graph_rules(simple, rules.early, log)
    if result is not simple:
        result = _repeat_passes(rules, result, log)
    result = _rewrite_bodies(result, rules.unchecked.early, log, rewritten)
    for finish in (apply_late_rules, apply_last_rules):
        step = finish(result, rules)
        result, log = step.graph, [*log, *step.log]
    final = with_size_checks(graph, result) if log else result
    return Rewritten(final, tuple(log))


def _rewrite_bodies(
    graph: Graph,
    rules: Rules,
    log: list[Application],
    apply: Callable[[Graph, Rules], Rewritten],
) -> Graph:
    """Apply the rules to the bodies of loops and branches."""
    if not graph.may_have_bodies:
        return graph

    @cache  # several loops may share one
    def rewritten_body(body: Body) -> Body:
        result = apply(body.graph, rules)
        new = body.with_outputs(result.graph.outputs) if result.log else None
        if new is not None:
            log.extend(result.log)
        return new or body

    replacements: dict[Value, Value] = {}
    for node in graph.nodes:
        params = params_with_sizes(node, replacements)
        if has_bodies(node):
            params = change_bodies(params, rewritten_body)
        same = all(params[k] is v for k, v in node.params.items())
        if not same or any(v in replacements for v in operands(node)):
            inputs = tuple([replacements.get(v, v) for v in node.inputs])
            with standing_at(node.place):
                fresh = rebuild(node, inputs, params)
            replacements.update(zip(node.outputs, fresh.outputs, strict=True))
    return graph.with_outputs([replacements.get(v, v) for v in graph.outputs])


def _apply_whole_graph_rules(
    graph: Graph, rules: Rules, log: list[Application], compiling: bool = False
) -> Graph:
    """Apply the rules that look at the whole graph, as often as they fit."""
    waiting = rules.whole(compiling)
    ops = {primitive.name for primitive in graph.primitives} if waiting else set()
    for rule in waiting:
        if rule.ops and ops.isdisjoint(rule.ops):
            continue
        while rule.whole is not None and (replacement := rule.whole(graph)) is not None:
            graph, pairs = replacement
            for old, new in pairs:
                _require_same_type(rule, old, new)
                log.append(Application(rule, old, new))
    return graph


def _repeat_passes(rules: Rules, graph: Graph, log: list[Application]) -> Graph:
    """Pass over a graph until nothing changes, at most MOST_PASSES times."""
    uses_when_tried: UsesWhenTried = {}
    for _ in range(MOST_PASSES):
        rewrite_pass = _RewritePass(rules, graph, uses_when_tried)
        graph = rewrite_pass.run()
        log += rewrite_pass.log
        if not rewrite_pass.log:
            break
    return graph


# The values at which no rule applied, with the numbers of uses that rules asked for.
UsesWhenTried = dict[Value, dict[Value, int]]


class _RewritePass:
    """One pass over a graph."""

    def __init__(
        self, rules: Rules, graph: Graph, uses_when_tried: UsesWhenTried
    ) -> None:
        self._rules = rules
        self._graph = graph
        self._uses_when_tried = uses_when_tried
        self._counted_uses: dict[Value, int] = {}
        self._replacements: dict[Value, Value] = {}
        self._uses = _count_uses(graph)
        self._kept_values = set(graph.outputs)
        self._known_nodes = set(graph.nodes)
        self.log: list[Application] = []

    def run(self) -> Graph:
        """Run the pass and return the rewritten graph."""
        replacements, candidates = self._replacements, self._rules.candidates
        for node in self._graph.nodes:
            changed = bool(replacements) and any(
                [v in replacements for v in operands(node)]
            )
            if changed or candidates(node):
                self._visit(node)
        graph = self._graph
        return graph.with_outputs([replacements.get(v, v) for v in graph.outputs])

    def _count_uses_of(self, value: Value) -> int:
        count = self._counted_uses[value] = self._uses[value]
        return count

    def _is_settled(self, value: Value) -> bool:
        counts = self._uses_when_tried.get(value)
        if counts is None:
            return False
        return all([self._uses[x] == count for x, count in counts.items()])

    def _visit(self, node: Node) -> None:
        """Process a node: rebuild its values on new inputs, and apply rules to them."""
        stack = [_Task(node)]
        while stack:
            task = stack[-1]
            pending = task.pending
            if pending:
                stack.append(_Task(pending.pop()))
                continue
            if self._advance(task):
                stack.pop()

    def _advance(self, task: "_Task") -> bool:
        """Try the rules on the current values of a node; True if none applies.

        The nodes that a replacement brought become pending, to be processed first.
        """
        fresh = self._renewed(task.values)
        self._known_nodes.update([v.node for v in fresh])
        self._move_uses(task.values, fresh)
        task.values = fresh
        for i, value in enumerate(task.values):
            result = self._apply_first_rule(value)
            if result is None:
                continue
            rule, new, new_nodes = result
            task.record(rule, value)
            self.log.append(Application(rule, value, new))
            self._require_budget()
            self._give_uses(value, new)
            task.values[i] = new
            task.pending = [n for n in reversed(new_nodes) if n is not new.node]
            self._known_nodes.update(new_nodes)
            for node in new_nodes:
                for operand in operands(node):
                    self._uses[operand] += 1
            return False
        for old, new in zip(task.node.outputs, task.values, strict=True):
            if old is not new:
                self._replacements[old] = new
        return True

    def _require_budget(self) -> None:
        count = len(self._graph.nodes)
        if len(self.log) > MOST_PER_NODE * count + 1000:
            most = Counter(a.rule.name for a in self.log[-1000:]).most_common(3)
            raise graph_error(
                f"rules make a graph grow without end: {', '.join(n for n, _ in most)}",
                op="rewrite",
                got=f"{len(self.log)} replacements in {count} nodes",
                where=self.log[-1].place,
            )

    def _renewed(self, values: list[Value]) -> list[Value]:
        """Rebuild the values on the replaced inputs of their nodes."""
        return [
            renewed(v.node, self._replacements, v.node.place).outputs[v.index]
            if any(x in self._replacements for x in operands(v.node))
            else v
            for v in values
        ]

    def _move_uses(self, before: list[Value], after: list[Value]) -> None:
        for old, new in zip(before, after, strict=True):
            if old is not new:
                self._give_uses(old, new)

    def _give_uses(self, old: Value, new: Value) -> None:
        """Give `new` the uses of `old`, and keep it if `old` is kept."""
        self._uses[new] += self._uses[old]
        if old in self._kept_values:
            self._kept_values.add(new)

    def _apply_first_rule(self, value: Value) -> tuple[Rule, Value, list[Node]] | None:
        """The first rule that applies, its value, and the nodes that this brought."""
        rules = self._rules.candidates(value.node)
        if not rules or self._is_settled(value):
            return None
        self._counted_uses = {}
        newest = next(SERIALS)
        for rule in rules:
            new = rule.apply(value, self._count_uses_of, self._kept_values.__contains__)
            if new is not None:
                _require_same_type(rule, value, new)
                if new.node.serial > newest:
                    new.node.place = value.node.place
                new_nodes = _new_producers(new, self._known_nodes)
                return rule, new, new_nodes
        self._uses_when_tried[value] = self._counted_uses
        return None


class _Task:
    """A node being processed, and the replacements of its values so far."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.values = list(node.outputs)
        self.pending: list[Node] = []
        self._seen: dict[Value, Rule] = {}

    def record(self, rule: Rule, value: Value) -> None:
        """Record one more replacement. Raises GraphError where they go in circles."""
        if value in self._seen or len(self._seen) >= MOST_IN_PLACE:
            raise _circle_error([*self._seen.values(), rule], value)
        self._seen[value] = rule


def _circle_error(rules: list[Rule], value: Value) -> GraphError:
    names = list(dict.fromkeys(rule.name for rule in rules[-4:]))
    return graph_error(
        f"rules undo each other: {' and '.join(names)}",
        op="rewrite",
        got=f"{value.node.primitive.name} {value.type}",
        hint=f'leave one out: rewrites=graphc.rewrites.default - "{names[-1]}"',
        where=value.node.place,
    )


def _count_uses(graph: Graph) -> Counter[Value]:
    used = chain.from_iterable(map(operands, graph.nodes))
    return Counter(chain(graph.outputs, used))


def _new_producers(value: Value, known: set[Node]) -> list[Node]:
    """The producers of a value that are not known yet, in order.

    They need not be new: a graph that was built before may hold the same ones.
    """
    producers = set[Node]()
    stack = [value.node]
    while stack:
        node = stack.pop()
        if node not in known and node not in producers:
            producers.add(node)
            stack += [operand.node for operand in operands(node)]
    new = (n for n in producers if n.primitive is not INPUT)
    return sorted(new, key=attrgetter("serial"))


def _require_same_type(rule: Rule, old: Value, new: Value) -> None:
    """Require that a replacement has the type of the value; sizes may look different.

    Raises GraphError otherwise, and where it is no value at all.
    """
    if not isinstance(new, Value):
        raise graph_error(
            f"the rule {rule.name} does not return a symbolic value",
            op="rewrite",
            got=shortened(repr(new)),
            expected=f"one of type {old.type}, or None where the rule does not apply",
        )
    if new.type.weak != old.type.weak or not new.type.may_equal(old.type):
        raise graph_error(
            f"the rule {rule.name} returns another type",
            op="rewrite",
            got=str(new.type),
            expected=f"{old.type}, of {old.node.primitive.name}",
            where=rule.place,
        )
