"""Split a graph into compiled segments and glue: the plan.

Every node has a level: even for compiled nodes, odd for glue (host reads of sizes,
and ops without a JAX form). It is the smallest level that the node's operands allow, so
that no plan alternates less often. Integers that are known from shapes or arguments
cost nothing and never end a segment. A level is then split and merged by the sizes that
vary (`grouping`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from graphc.errors import standing_at
from graphc.ir.graph.bodies import runs_in_python
from graphc.ir.graph.build import INPUT, SIZE_OP
from graphc.ir.graph.nodes import Graph, Node, Value, sizes_needed
from graphc.ir.graph.op import EMISSION
from graphc.ir.graph.replay import symbols_needed
from graphc.ir.graph.walk import ancestors, in_program_order
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Symbol, symbol_dim, symbols_in
from graphc.ir.sizes.names import shown_name
from graphc.ir.types import is_integer
from graphc.ops.effects.capacities import BUCKET
from graphc.transform.loops.doubling import ROWS
from graphc.transform.padding.padded_graph import PaddedGraph
from graphc.transform.planning.derived_sizes import in_terms_of_axes
from graphc.transform.planning.facts import NodeFacts, facts_of
from graphc.transform.planning.grouping import (
    UNDIVIDED,
    CostModel,
    Part,
    VaryingSymbols,
    merge_parts,
    split_by_keys,
    varying_symbols,
)
from graphc.transform.planning.placement import postpone
from graphc.transform.planning.plan import (
    HostNode,
    JoinedPieces,
    LoopInPieces,
    Plan,
    PlanStep,
    PythonLoop,
    Read,
    Segment,
)
from graphc.transform.planning.python_bodies import body_graph
from graphc.transform.printed_sizes import Keys, printed_symbols


def partition(
    graph: Graph,
    model: CostModel | None = None,
    padded: PaddedGraph | None = None,
    first: int = 0,
) -> Plan:
    """Plan a graph: split it into segments and glue.

    `padded` is the padded graph that it comes from, if any; `first` is the number of
    the first segment.
    """
    model = model or CostModel()
    lengths = padded.true_sizes if padded else ()
    facts = facts_of(graph, lengths)
    if not facts.rounded.isdisjoint(map(facts.resolve, graph.outputs)):
        graph = _with_results_of_segments(facts)
        facts = facts_of(graph, lengths)
    levels = _levels(facts)
    roots = _nodes_in_segments(facts)
    held_nodes = [n for n in facts.compiled if n in roots or n not in facts.free]
    operands = facts.held_operands.__getitem__
    levels = postpone(held_nodes, levels, operands, roots)
    keys = _keys_of_nodes(facts, [n for n in held_nodes if levels[n] % 2 == 0])
    waves = split_by_keys(keys, levels, operands)
    parts = merge_parts(waves, operands, model)
    host_only = [n for n in held_nodes if levels[n] % 2]
    assembly = _Assembly(facts, model, first)
    steps = assembly.steps(parts, host_only, levels)
    steps = _host_steps(facts, _sizes_for_driver(facts, steps)) + steps
    statics = _static_inputs(facts)
    return Plan(graph, tuple(steps), statics, facts.aliases, padded)


def _with_results_of_segments(facts: NodeFacts) -> Graph:
    """Copy the results that the host computes in a segment.

    Then all results are arrays of the device.
    """

    def copied(value: Value) -> Value:
        if facts.resolve(value) not in facts.rounded:
            return value
        is_bool = value.dtype.kind == "b"
        with standing_at(value.node.place):
            return F.not_equal(value, False) if is_bool else F.positive(value)

    return facts.graph.with_outputs(map(copied, facts.graph.outputs))


def _levels(facts: NodeFacts) -> dict[Node, int]:
    levels: dict[Node, int] = {}
    in_jax = EMISSION["jax"].rules
    for node, operands in facts.operands.items():
        level = max([levels.get(o, 0) for o in operands], default=0)
        in_glue = node.primitive not in in_jax or node in facts.driven
        for size in facts.device_sizes(node) if node.demands or node.guards else ():
            source = levels.get(size.node, 0)
            read = source + 1 - source % 2  # the level at which it is read, or is glue
            level = max(level, read if in_glue else read + 1)
        levels[node] = level + (level % 2 != in_glue)
    return levels


def _nodes_in_segments(facts: NodeFacts) -> set[Node]:
    """Nodes that must stand in a segment although they could be cloned anywhere."""
    values = [facts.resolve(v) for v in facts.graph.outputs]
    values += [v for v in facts.demanded if facts.is_data(v)]
    values += [c.condition for c in facts.checks if facts.is_data(c.condition)]
    for node in facts.driven:  # the driver calls it with arrays from segments
        inputs = map(facts.resolve, node.inputs)
        values += [v for v in inputs if not v.node.primitive.inline]
    return {v.node for v in values}


def _sizes_for_driver(facts: NodeFacts, steps: Iterable[PlanStep]) -> list[Value]:
    """The sizes that the driver must know, as segments alone do not derive them."""
    derived: set[Symbol] = set()
    passed: set[Symbol] = set()
    for step in steps:
        if isinstance(step, Segment):
            derived.update(step.derived)
            passed.update(step.statics)
            early = (v for v in step.inputs if facts.is_early(v))
            passed.update(v.symbol for v in early if is_integer(v.dtype))
        elif isinstance(step, PythonLoop):
            passed.update(symbols_needed(step.node))
        elif isinstance(step, HostNode):
            passed.update(v.symbol for v in map(facts.resolve, sizes_needed(step.node)))
    numbers = [v for v in facts.demanded if not facts.is_data(v)]
    return [
        v
        for v in numbers
        if not is_integer(v.dtype) or v.symbol not in derived or v.symbol in passed
    ]


def _host_steps(facts: NodeFacts, requested: Iterable[Value]) -> list[PlanStep]:
    """The steps on the host: arithmetic on sizes and arguments, and checks of these."""
    checks = [c for c in facts.checks if not facts.is_data(c.condition)]
    steps: list[PlanStep] = []
    for node in ancestors([*requested, *(c.condition for c in checks)]):
        is_computed = node.primitive is not INPUT and not node.primitive.passes_on
        if is_computed and not node.primitive.inline:
            steps.append(
                HostNode(
                    node,
                    node.place,
                    "arithmetic on sizes and integer arguments, needed to know a size",
                    "pass the result as an integer argument",
                )
            )
    return steps + list(checks)


def _static_inputs(facts: NodeFacts) -> tuple[int, ...]:
    """Positions of the inputs whose numbers are needed before compilation."""
    requested = [v for v in facts.demanded if not facts.is_data(v)]
    needed_inputs = {n for n in ancestors(requested) if n.primitive is INPUT}
    return tuple(i for i, v in enumerate(facts.graph.inputs) if v.node in needed_inputs)


class _Assembly:
    """Puts segments and host nodes in order, each read just before it is needed."""

    def __init__(self, facts: NodeFacts, model: CostModel, first: int) -> None:
        self._facts, self._model, self._next = facts, model, first

    def steps(
        self, parts: list[Part], host_only: list[Node], levels: dict[Node, int]
    ) -> list[PlanStep]:
        """The steps in the order of execution."""
        facts = self._facts
        openings = _opening_parts(parts, host_only, facts, self._model)
        opened = [*openings.values()]
        pieces: list[Part | Node] = [p for p in parts if p not in opened]
        pieces += host_only
        pieces.sort(key=lambda p: p.level if isinstance(p, Part) else levels[p])
        members = [_nodes_of_piece(piece, facts, openings) for piece in pieces]
        crossing = _crossing_values(facts, members)
        steps: list[PlanStep] = []
        read: set[Value] = set()
        waiting = [c for c in facts.checks if facts.is_data(c.condition)]
        for piece, nodes in zip(pieces, members, strict=True):
            for size, node in _sizes_to_read(facts, nodes, read):
                steps.append(_read_step(size, node))
            opening = None if isinstance(piece, Part) else openings.get(piece)
            steps.append(self._make_step(piece, nodes, crossing, opening))
            done = set(nodes)
            steps += [c for c in waiting if c.condition.node in done]
            waiting = [c for c in waiting if c.condition.node not in done]
        return steps

    def _make_step(
        self,
        piece: Part | Node,
        nodes: list[Node],
        crossing: set[Value],
        opening: Part | None,
    ) -> PlanStep:
        facts, index = self._facts, self._next
        if isinstance(piece, Part):
            self._next += 1
            return _make_segment(index, nodes, piece, facts, crossing)
        if runs_in_python(piece):
            loop = self._python_loop(piece)
            self._next += len(loop.body.segments)
            return loop
        if piece.primitive.driven:
            self._next += 1
            return _loop_segment(index, piece, facts, opening)
        return _numpy_step(piece)

    def _python_loop(self, node: Node) -> PythonLoop:
        """A loop whose body has a plan of its own."""
        graph, sizes, asking, size = body_graph(node)
        plan = partition(graph, self._model, first=self._next)
        return PythonLoop(
            node,
            plan,
            sizes,
            node.place,
            f"{asking.reported} at {asking.place} needs the size "
            f"{shown_name(size.symbol)}, which differs from step to step: the steps "
            "are done in Python",
            _remedy_for_size(size),
        )


def _remedy_for_size(size: Value) -> str:
    """The remedy for a size that differs from step to step."""
    mask = "compute on the largest size and mask with gt.where"
    if size.symbol.upper is not None:
        return 'dims="bound" compiles the loop as a whole, where its ops can be masked'
    return size.node.primitive.size_remedy or mask


def _sizes_to_read(
    facts: NodeFacts, nodes: Iterable[Node], read: set[Value]
) -> list[tuple[Value, Node]]:
    """The device sizes that these nodes need and that are not yet on the host.

    Each is read for the first node of the program that asks for it.
    """
    first_uses: dict[Value, Node] = {}
    for node in nodes:
        for size in facts.device_sizes(node) if node.demands or node.guards else ():
            if size not in read:
                first = first_uses.setdefault(size, node)
                first_uses[size] = min(first, node, key=facts.places.__getitem__)
    read.update(first_uses)
    return list(first_uses.items())


def _read_step(size: Value, node: Node) -> Read:
    name, origin = shown_name(size.symbol), size.node
    if origin.primitive is BUCKET:
        origin = origin.inputs[0].node
    return Read(
        size,
        node.place,
        f"{node.reported} needs the size {name}, which depends on data",
        origin.primitive.size_remedy
        or "reduce over the selected elements with gt.where instead of selecting them, "
        "or pass the size as an argument",
    )


def _opening_parts(
    parts: Iterable[Part],
    host_only: Iterable[Node],
    facts: NodeFacts,
    model: CostModel,
) -> dict[Node, Part]:
    """The small parts that only one loop in pieces uses, by that loop.

    They become part of the loop's program, which is compiled for a few numbers of rows:
    that saves a program for each of their sizes.
    """
    loops = [n for n in host_only if n.primitive.driven and not runs_in_python(n)]
    if not loops or model is UNDIVIDED:  # a file has a stage for each part
        return {}
    openings: dict[Node, Part] = {}
    for part, its_users in _users_of_parts(parts, loops, facts).items():
        (loop, *others) = its_users
        if others or not isinstance(loop, Node) or loop in openings:
            continue
        small = loop in loops and part.weight <= model.base
        if small and part.keys <= varying_symbols(loop):
            openings[loop] = part
    return openings


def _users_of_parts(
    parts: Iterable[Part], loops: Iterable[Node], facts: NodeFacts
) -> dict[Part, set[Node | Part | None]]:
    """The parts and loops that use values of each part; None stands for the driver."""
    part_of = {node: part for part in parts for node in part.nodes}
    users: dict[Part, set[Node | Part | None]] = {}
    values = [facts.resolve(v) for v in (*facts.graph.outputs, *facts.demanded)]
    for value in (*values, *(c.condition for c in facts.checks)):
        if value.node in part_of:
            users.setdefault(part_of[value.node], set()).add(None)
    for node, operands in facts.held_operands.items():
        for operand in operands:
            part, user = part_of.get(operand), part_of.get(node, node)
            if part is not None and part is not user and node not in facts.free:
                users.setdefault(part, set()).add(user)
    for loop in loops:  # nodes that could be cloned anywhere stand in one part for all
        for part in filter(None, map(part_of.get, facts.operands[loop])):
            users.setdefault(part, set()).add(loop)
    return users


def _nodes_of_piece(
    piece: Part | Node, facts: NodeFacts, openings: Mapping[Node, Part]
) -> list[Node]:
    """The nodes of a piece, with clones of the free nodes that they use."""
    if isinstance(piece, Part):
        return _with_clones(piece.nodes, facts)
    if piece in openings:
        return _with_clones([*openings[piece].nodes, piece], facts)
    nodes = _with_clones([piece], facts)
    return [n for n in nodes if n is piece or n.primitive.inline]


def _loop_segment(
    index: int, node: Node, facts: NodeFacts, opening: Part | None
) -> LoopInPieces:
    """The segment of a capacity-doubling loop, with the part that opens it."""
    first = [] if opening is None else opening.nodes
    part = Part(0, varying_symbols(node), [*first, node])
    nodes = [*_with_clones(first, facts), node]
    plain = _make_segment(index, nodes, part, facts, set())
    (rows,) = symbols_in(node.params["length"])
    statics = (*(s for s in plain.statics if s is not rows), rows)
    reason = "it is compiled once for each capacity of its rows"
    if part.keys - {rows}:
        others = ", ".join(sorted(map(shown_name, part.keys - {rows})))
        reason += f", and each value of {others}"
    opened = frozenset(v for v in map(facts.resolve, node.inputs) if v.node in first)
    fields: dict[str, Any] = {"statics": statics, "outputs": node.outputs, "rows": rows}
    fields |= {"opened": opened, "reason": reason}
    return LoopInPieces(**{**vars(plain), **fields})


def _numpy_step(node: Node) -> HostNode:
    if node.primitive is ROWS:
        return JoinedPieces(
            node,
            node.place,
            "the rows that a loop kept of its steps are joined",
            "give a bound of its steps: max_steps= of gt.while_loop",
        )
    reason = EMISSION["jax"].reason(node.primitive, "it has no JAX form")
    return HostNode(
        node,
        node.place,
        f"{node.primitive.name} runs in NumPy: {reason}",
        "use an op that JAX has",
    )


def _with_clones(nodes: Iterable[Node], facts: NodeFacts) -> list[Node]:
    """The nodes of a part, with clones of the free nodes that they use."""
    members, free = set(nodes), facts.free
    stack = list(members) if free else []
    while stack:
        for operand in facts.operands[stack.pop()]:
            if operand in free and operand not in members:
                members.add(operand)
                stack.append(operand)
    return in_program_order(members, facts.operands.__getitem__)


def _crossing_values(facts: NodeFacts, members: Iterable[list[Node]]) -> set[Value]:
    """The values that are used outside of the piece that computes them."""
    values = [facts.resolve(v) for v in facts.graph.outputs]
    values += [v for v in facts.demanded if facts.is_data(v)]
    crossing = {*values, *(c.condition for c in facts.checks)}
    for nodes in members:
        inside = set(nodes)
        for node in nodes:
            for value in node.inputs:
                real = facts.resolve(value)
                if real.node not in inside:
                    crossing.add(real)
    return crossing


def _make_segment(
    index: int, nodes: list[Node], part: Part, facts: NodeFacts, crossing: set[Value]
) -> Segment:
    inside = set(nodes)
    inputs: dict[Value, None] = {}
    for node in nodes:
        for value in _traced_inputs(node, part.keys):
            real = facts.resolve(value)
            if real.node not in inside:
                inputs[real] = None
    outputs = tuple([v for n in part.nodes for v in n.outputs if v in crossing])
    input_sizes = {size for v in inputs for size in v.type.shape}
    keys = tuple(sorted(part.keys, key=lambda s: (s.name, s.serial)))
    derived_symbols: Iterable[Symbol] = ()
    if facts.derived:
        derived_symbols = (
            frozenset().union(*map(varying_symbols, nodes)) & facts.derived.keys()
        )
    derived = tuple(sorted(derived_symbols, key=lambda s: (s.name, s.serial)))
    axes = [facts.derived[s] for s in derived]
    unknown = [s for s in keys if symbol_dim(s) not in input_sizes]
    needed = frozenset().union(*map(printed_symbols, nodes), *axes) if unknown else ()
    statics = [s for s in unknown if s in needed or s.origin is not None]
    return Segment(
        index,
        tuple(nodes),
        tuple(inputs),
        tuple(statics),
        outputs,
        keys,
        _segment_reason(keys),
        derived=derived,
    )


def _keys_of_nodes(facts: NodeFacts, nodes: Iterable[Node]) -> dict[Node, Keys]:
    """The keys that each node varies with, including those of free nodes it uses."""
    free: dict[Node, Keys] = {}
    varied = VaryingSymbols()
    for node in facts.compiled if facts.free else ():
        if node in facts.free:
            node_keys = in_terms_of_axes(varied.keys(node), facts.derived)
            free[node] = _with_operands(node_keys, facts.operands[node], free)
    keys: dict[Node, Keys] = {}
    for node in nodes:
        node_keys = varied.keys(node)
        if facts.derived:
            node_keys = in_terms_of_axes(node_keys, facts.derived)
        keys[node] = (
            _with_operands(node_keys, facts.operands[node], free) if free else node_keys
        )
    return keys


def _with_operands(
    keys: Keys, operands: Iterable[Node], free: dict[Node, Keys]
) -> Keys:
    for operand in operands:
        if operand in free and not free[operand] <= keys:
            keys |= free[operand]
    return keys


def _traced_inputs(node: Node, keys: Keys) -> Iterable[Value]:
    """The inputs of a node that arrive as arrays; a size that is static does not."""
    if node.primitive is SIZE_OP:
        return [v for v in node.inputs if v.symbol not in keys]
    return node.inputs


def _segment_reason(keys: Iterable[Symbol]) -> str:
    if not keys:
        return "its shapes are all static: it is compiled once"
    names = ", ".join(sorted(map(shown_name, keys)))
    return f"it is compiled once for each value of {names}"
